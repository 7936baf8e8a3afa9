// Package asl executes state machines written in the Amazon States Language and records the history that AWS Step
// Functions would show for them.
//
// It promises three things. A definition that loads is executed in full: every field it holds has an effect or is
// documented to have none, and anything else is refused when it is loaded, with the code, message and location that
// AWS uses where they are known. The events of an execution have the types, order, ids, previous ids and details
// that GetExecutionHistory returns on AWS. And an execution leaves nothing behind: after Wait no goroutine of it runs.
//
// The subset is JSONPath machines of type STANDARD: Task (a Lambda function's ARN, or arn:aws:states:::lambda:invoke),
// Choice, Wait, Pass, Succeed, Fail, Parallel and Map, inline and distributed. JSONata, variables (Assign), activities,
// callbacks, heartbeats, other service integrations, ItemBatcher, other readers than JSON, WriterConfig and
// Credentials are not executed, so they are refused.
//
// # Time
//
// A [Machine] runs in real time, or, with Config.Simulated, in a time that jumps from one timer to the next as soon as
// nothing is left to do. Config.WaitScale shortens the waiting in both. In real time it leaves time-outs alone, since
// real functions take real time. In simulated time it is how long the jumps themselves take: with a scale of 0 an hour
// of waiting takes no time, yet every timestamp and time-out is as if it had.
//
// # Order
//
// Branches, iterations and child executions take turns: one at a time runs until it has to wait, and those that are
// woken run in the order in which they were woken. So the history of a machine whose functions answer in a fixed order
// is the same at every run; on AWS only each branch's own chain is.
//
// # Where AWS is silent
//
// What nobody has recorded was decided as follows.
//
//   - States.Runtime, and data that grows too big outside a task, end the whole execution from wherever they happen:
//     no Parallel or Map above reports a failure, retries or catches.
//   - A failing intrinsic function is States.Runtime, and neither retried nor caught.
//   - A branch that is stopped because its sibling failed leaves TaskStateAborted for each task that runs in it, at
//     any depth, and MapIterationAborted if it is an iteration itself; waits and inner maps leave nothing.
//   - `$$.Map.Item` is known in ItemSelector and, in an inline Map, also to the states of its iterations.
//   - What stands for a tolerated failed item in the result of a distributed Map without ResultWriter is the record
//     that ResultWriter would have written (AWS documents it so).
//   - With ResultWriter, files are written whether the Map Run succeeds or fails, but not when it is aborted.
//   - A distributed Map runs at most 10,000 children at a time, as AWS does; an inline Map has no such limit.
//   - EXPRESS children run exactly once; unlike on AWS their history can be read.
//   - A MaxItemsPath that is no whole number, and Parameters of a reader or writer that find nothing, fail before there is
//     a Map Run; the test manifest of a ResultWriter is written after MapRunStarted and before the items are read.
//   - A negative MaxConcurrencyPath is States.Runtime.
//   - The causes of States.ItemReaderFailed for a missing object, or one that is not JSON, are our own words.
//   - A reply that is not JSON is Lambda.Unknown, and any other trouble of a Lambda implementation Lambda.SdkClientException.
package asl
