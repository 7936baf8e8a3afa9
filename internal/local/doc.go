// Package local is the laptop's AWS: S3, Lambda, Step Functions and the
// status-change rule for one state machine, in this process and its children.
//
// It promises that
//   - the state machine runs in the interpreter of internal/asl, and the
//     functions run as real Lambda binaries: one child process for each
//     concurrent invocation, started on demand, reused while warm;
//   - an invocation ends as it would on Lambda: with the handler's reply or its
//     error verbatim, with Runtime.ExitError at once when its process dies, with
//     Sandbox.Timedout (and a killed process) when the function's time is over;
//   - conditional writes to S3 are atomic and keys are exact, whatever bytes
//     they hold;
//   - an execution that ends ABORTED, TIMED_OUT or FAILED is told to the
//     function that the rule names, with retries, as EventBridge would;
//   - stacks do not see each other: two in one process may use the same bucket
//     and function names;
//   - nothing outlives Close, and on Linux nothing outlives a killed parent.
//
// AWS's time zone is UTC and so is that of the functions; this process may live
// in any.
//
// It is the only package that knows an emulator: kumo
// (github.com/sivchari/kumo), which runs inside this process.
//
// # How it is put together
//
// One server on a loopback port speaks all protocols (Endpoint). Behind it
// stands kumo, once for the whole process because kumo's state is global; the
// gateway in front keeps stacks apart and repairs what kumo gets wrong:
//
//   - S3: keys travel in hexadecimal, because kumo cleans paths ("//", a leading
//     or trailing "/", "..") and lists control characters as broken XML; listings
//     honour encoding-type=url; their times are UTC, where kumo writes local time
//     and calls it UTC; the answers about multipart uploads name bucket and key as
//     they were given. Ranges and parts themselves are kumo's.
//   - Lambda Runtime API: each process polls under a name of its own
//     ("process-3"), so a dead process is known to belong to an invocation; the
//     gateway sees which request a process has taken and what it answered, gives
//     the function its real ARN, and keeps the report of a failed start, which
//     kumo drops.
//   - Step Functions: StartExecution, StopExecution, ListExecutions,
//     DescribeExecution, GetExecutionHistory, ListMapRuns and DescribeMapRun,
//     answered from the interpreter.
//
// # What this local AWS does not do
//
//   - S3 has buckets, PutObject, GetObject (with one range), HeadObject,
//     DeleteObject, ListObjectsV2 without delimiter, and multipart uploads (create,
//     part, complete, abort). Anything else (copy, versioning, lists of uploads) is
//     refused with NotImplemented, never guessed. DELETE ignores conditions. Parts
//     may be shorter than the 5 MiB that S3 demands of all but the last.
//     No policy, no encryption and no checksum is enforced, and it never throttles.
//     kumo reads a body under its lock, so a client that stalls in the middle of one
//     holds up all others. A listing sorts the whole bucket for each page (100,000
//     objects take some ten seconds).
//   - Objects stay in memory until the process ends, also after Close.
//     Do not set KUMO_DATA_DIR: kumo would write them to disk.
//   - Lambda never refuses for want of concurrency: where AWS scales out, an
//     invocation beyond Function.Concurrency waits in line. Waiting is not part of
//     the function's time, but of the state's TimeoutSeconds.
//   - A process is used again from when it asks for more work, a moment after its
//     answer: an invocation in that moment starts another one, up to Concurrency.
//   - A process has 30 s to start, where Lambda gives 10 s.
//   - A process is not frozen between invocations, memory is not limited, and
//     payloads are not measured (the interpreter enforces its 256 KiB).
//   - The function's time counts from the moment its process takes the request;
//     a cold start is outside it.
//   - Only executions that StartExecution began are told to the status-change
//     rule; those of a Map Run are not. Only ABORTED, TIMED_OUT and FAILED are told.
//   - Step Functions has no operation about state machines: there is one, that
//     of Config. Nothing is redriven.
//   - Permissions, log groups and schedules do not exist.
//   - Outside Linux a parent that is killed (not closed) leaves its function
//     processes running until they next poll, find no server, and exit.
package local
