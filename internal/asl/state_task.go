package asl

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/lockstep-pipeline/lockstep/internal/asl/payload"
)

// taskWork is a Task state: it calls a Lambda function, by its ARN or through the lambda:invoke integration.
type taskWork struct {
	function    string // ARN as written in Resource; "" for lambda:invoke
	timeout     *int64 // seconds
	timeoutPath *payload.Reference
}

func (w taskWork) run(c *chain, raw any) (any, string, error) {
	effective, err := c.effective(raw)
	if err != nil {
		return nil, "", err
	}
	c.retries = new(int)
	return c.retrying(raw, func() (any, error) { return w.attempt(c, effective) })
}

// A task is one attempt, as one of the two ways to call a function shows it.
type task interface {
	scheduled(seconds *int64) (EventType, any)
	started() (EventType, any)
	call() Call
	// result makes the state's result of a reply; name stands for the task when the result is too big.
	result(reply any, inv Invocation) (result any, name string)
	succeeded(output string) (EventType, any)
	ended(f *failure) (EventType, any)
}

func (w taskWork) attempt(c *chain, effective any) (any, error) {
	arguments, err := c.arguments(effective)
	if err != nil {
		return nil, err
	}
	limit, err := w.limit(c, effective)
	if err != nil {
		return nil, err
	}
	t, err := w.task(c, arguments)
	if err != nil {
		return nil, err
	}
	if err := c.append(t.scheduled(limit)); err != nil {
		return nil, err
	}
	c.inTask = true
	defer func() { c.inTask = false }()
	if err := c.append(t.started()); err != nil {
		return nil, err
	}
	inv, err := c.invoke(t.call(), limit)
	if err == errStopped {
		return nil, err
	}
	var output string
	var result any
	f, _ := err.(*failure)
	if f == nil {
		if f = decodeReply(&inv, &result); f == nil {
			var name string
			result, name = t.result(result, inv)
			if output = payload.Encode(result); len(output) > dataLimit {
				f = tooBig(name)
			}
		}
	}
	if f != nil {
		if err := c.append(t.ended(f)); err != nil {
			return nil, err
		}
		return nil, f
	}
	return result, c.append(t.succeeded(output))
}

func decodeReply(inv *Invocation, reply *any) *failure {
	if len(bytes.TrimSpace(inv.Payload)) == 0 {
		return nil
	}
	v, err := payload.Decode(inv.Payload)
	if err != nil {
		return fail("Lambda.Unknown", "The function's reply is not JSON: "+err.Error())
	}
	*reply = v
	return nil
}

// limit is the state's time-out in seconds, nil if it sets none.
func (w taskWork) limit(c *chain, effective any) (*int64, error) {
	if w.timeoutPath == nil {
		return w.timeout, nil
	}
	v, err := w.timeoutPath.Lookup(c.see(effective))
	if err != nil {
		return nil, err
	}
	seconds, ok := payload.Int64(v)
	if !ok || seconds <= 0 || seconds > int64(longestWait/time.Second) {
		return nil, c.runtime("The TimeoutSecondsPath field refers to value %q which is not a valid positive integer: %s",
			plain(v), w.timeoutPath)
	}
	return &seconds, nil
}

// invoke calls the function, and gives up when the limit has passed.
func (c *chain) invoke(call Call, limit *int64) (Invocation, error) {
	call.ExecutionARN, call.State = c.exec.arn, c.state.name
	s := c.exec.sched
	within := c.scope.inner() // stopped, and with it the call's context, when the limit has passed
	defer within.stop()
	var inv Invocation
	var err error
	p := s.prepare(within)
	if lambda, ok := c.exec.m.cfg.Lambda.(Immediate); ok {
		inv, err = lambda.Answer(call)
		s.wake(p, done) // after those that are ready: a call always lets others go on
	} else {
		s.call(p, func() { inv, err = c.exec.m.cfg.Lambda.Invoke(within.ctx, call) })
	}
	started := s.now()
	cancel := func() {}
	if limit != nil {
		cancel = s.after(time.Duration(*limit)*time.Second, asWritten, p)
	}
	reason := s.park(p)
	cancel()
	switch reason {
	case stopped:
		return Invocation{}, errStopped
	case elapsed:
		return Invocation{}, timedOut()
	}
	if inv.Took > 0 {
		if err := c.takeTime(inv.Took, s.now().Sub(started), limit); err != nil {
			return Invocation{}, err
		}
	}
	if err != nil {
		return inv, failureOf(err)
	}
	return inv, nil
}

// takeTime waits for as long as an answer says that it took, of which some has passed, or for as long as it may take.
func (c *chain) takeTime(took, passed time.Duration, limit *int64) error {
	late := limit != nil && took > time.Duration(*limit)*time.Second
	if late {
		took = time.Duration(*limit) * time.Second
	}
	if err := c.sleep(took - passed); err != nil {
		return err
	}
	if late {
		return timedOut()
	}
	return nil
}

// task chooses how the function is called.
func (w taskWork) task(c *chain, arguments any) (task, error) {
	m := c.exec.m
	if w.function != "" {
		arn, qualifier := m.splitFunction(w.function)
		return plainTask{resource: w.function, input: payload.Encode(arguments), to: Call{FunctionARN: arn, Qualifier: qualifier}}, nil
	}
	object, _ := arguments.(map[string]any) // Parameters are an object
	name, ok := object["FunctionName"].(string)
	if !ok {
		return nil, c.runtime("The field 'FunctionName' is not a string: %s", payload.Encode(object["FunctionName"]))
	}
	arn, qualifier := m.splitFunction(name)
	if q, ok := object["Qualifier"].(string); ok {
		qualifier = q
	}
	clientContext, _ := object["ClientContext"].(string)
	return invokeTask{
		parameters: payload.Encode(arguments), region: m.cfg.Region, tail: object["LogType"] == "Tail", rnd: m.rnd, now: c.exec.sched.now,
		to: Call{FunctionARN: arn, Qualifier: qualifier, ClientContext: clientContext, Payload: invokePayload(object)},
	}, nil
}

// invokePayload is what the function receives: a string that holds JSON is sent as that JSON.
func invokePayload(parameters map[string]any) []byte {
	v, ok := parameters["Payload"]
	if !ok {
		return []byte("{}")
	}
	if text, ok := v.(string); ok && json.Valid([]byte(text)) {
		return []byte(text)
	}
	return []byte(payload.Encode(v))
}
