package asl

// plainTask is a task whose Resource is a function's ARN: its result is the reply itself.
type plainTask struct {
	resource string
	input    string
	to       Call
}

func (t plainTask) call() Call {
	t.to.Payload = []byte(t.input)
	return t.to
}

func (t plainTask) scheduled(seconds *int64) (EventType, any) {
	return LambdaFunctionScheduled, LambdaFunctionScheduledDetails{Resource: t.resource, Input: t.input, TimeoutInSeconds: seconds}
}

func (plainTask) started() (EventType, any) { return LambdaFunctionStarted, nil }

func (t plainTask) result(reply any, _ Invocation) (any, string) { return reply, t.resource }

func (plainTask) succeeded(output string) (EventType, any) {
	return LambdaFunctionSucceeded, OutputDetails{Output: output}
}

func (plainTask) ended(f *failure) (EventType, any) {
	if f.name() == errorTimeout {
		return LambdaFunctionTimedOut, f.FailureDetails
	}
	return LambdaFunctionFailed, f.FailureDetails
}
