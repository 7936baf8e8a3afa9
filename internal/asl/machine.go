package asl

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"sync"

	"github.com/google/uuid"

	"github.com/lockstep-pipeline/lockstep/internal/asl/payload"
)

// Config says what a [Machine] runs with. Its zero value runs machines that call no function and read no object.
type Config struct {
	Name    string // of the state machine; default "machine"
	Region  string // default us-east-1
	Account string // default 123456789012
	RoleARN string // default arn:aws:iam::<account>:role/<name>

	Lambda  Lambda  // default: no function exists
	Objects Objects // default: no object exists, and none can be written

	Clock     Clock       // default [RealClock]
	Simulated bool        // time jumps over waiting; see the package's documentation
	WaitScale WaitScale   // default: waits are as long as they are written
	Random    rand.Source // of jitter and generated ids; default seeded at random
	Observer  Observer    // told of every event; may be nil
}

// A WaitScale shortens Wait states, the delays of retries and Invocation.Took. The zero value leaves them as they are.
// Outside of simulated time it does not shorten time-outs.
type WaitScale struct {
	shortened float64 // 1 - scale, so that the zero value is a scale of 1
}

// ScaleWaits makes waits last the given share of their length: 0.01 a hundredth, 0 no time at all.
func ScaleWaits(by float64) (WaitScale, error) {
	if !(by >= 0 && by <= 1000) {
		return WaitScale{}, fmt.Errorf("the scale of waits is %v: it must lie between 0 and 1000", by)
	}
	return WaitScale{shortened: 1 - by}, nil
}

func (w WaitScale) factor() float64 { return 1 - w.shortened }

// An Observer is told of all that happens to the executions of a machine, in order, and one call at a time for one
// execution. It is called synchronously: until it returns, that execution and its children stand still, which lets a
// caller hold a machine at a point. It may call any method of the execution but Wait.
type Observer interface {
	// Event follows the appending of an event. Children of distributed maps are executions of their own.
	Event(execution *Execution, event Event)
	// Status tells that an execution began (RUNNING, before its first event) or ended (after its last).
	Status(execution *Execution, status Status)
}

// A Machine runs executions of one definition, any number at once.
type Machine struct {
	def *Definition
	cfg Config
	rnd *random
}

// NewMachine prepares a definition for running.
func NewMachine(def *Definition, cfg Config) (*Machine, error) {
	if def == nil {
		return nil, errors.New("new state machine: no definition")
	}
	setDefault(&cfg.Name, "machine")
	setDefault(&cfg.Region, "us-east-1")
	setDefault(&cfg.Account, "123456789012")
	setDefault(&cfg.RoleARN, fmt.Sprintf("arn:aws:iam::%s:role/%s", cfg.Account, cfg.Name))
	if cfg.Lambda == nil {
		cfg.Lambda = nothing{}
	}
	if cfg.Objects == nil {
		cfg.Objects = nothing{}
	}
	if cfg.Clock == nil {
		cfg.Clock = RealClock{}
	}
	if cfg.Random == nil {
		cfg.Random = rand.NewPCG(rand.Uint64(), rand.Uint64())
	}
	if err := checkName(cfg.Name); err != nil {
		return nil, fmt.Errorf("new state machine: %w", err)
	}
	return &Machine{def: def, cfg: cfg, rnd: &random{source: cfg.Random}}, nil
}

// ARN is the machine's.
func (m *Machine) ARN() string { return m.arn("stateMachine", m.cfg.Name) }

func (m *Machine) arn(kind, rest string) string {
	return fmt.Sprintf("arn:aws:states:%s:%s:%s:%s", m.cfg.Region, m.cfg.Account, kind, rest)
}

// Input is what an execution starts with.
type Input struct {
	Name string // of the execution; default a UUID
	JSON string // any JSON value, as text; default {}
}

// ErrInvalidInput tells that an execution's input is not a JSON text (InvalidExecutionInput on AWS).
var ErrInvalidInput = errors.New("invalid execution input")

// ErrInvalidName tells that AWS refuses the name of a machine or an execution (InvalidName).
var ErrInvalidName = errors.New("invalid name")

// Start begins an execution. It does not look for others of the same name. When ctx is done the execution is aborted,
// as by StopExecution without error and cause.
func (m *Machine) Start(ctx context.Context, in Input) (*Execution, error) {
	setDefault(&in.Name, m.rnd.uuid())
	setDefault(&in.JSON, "{}")
	if err := checkName(in.Name); err != nil {
		return nil, fmt.Errorf("start execution: %w", err)
	}
	input, err := payload.Decode([]byte(in.JSON))
	if err != nil {
		return nil, fmt.Errorf("start execution: %w: %v", ErrInvalidInput, err)
	}
	if len(in.JSON) > dataLimit {
		return nil, fmt.Errorf("start execution: %w: %d bytes, and %d is the limit", ErrInvalidInput, len(in.JSON), dataLimit)
	}
	sched := newScheduler(m.cfg.Clock, m.cfg.WaitScale.factor(), m.cfg.Simulated)
	e := m.newExecution(identity{
		name:        in.Name,
		machineName: m.cfg.Name,
		machineARN:  m.ARN(),
		arn:         m.arn("execution", m.cfg.Name+":"+in.Name),
		timeout:     m.def.timeout,
	}, document{value: input, text: in.JSON}, sched, sched.newScope(ctx))
	e.release = context.AfterFunc(ctx, func() { e.Abort("", "") })
	sched.spawn(func() { e.run(m.def.flow) })
	return e, nil
}

// checkName refuses what AWS refuses as the name of a machine or an execution.
func checkName(name string) error {
	if !validName.MatchString(name) {
		return nameError(name)
	}
	return nil
}

// nameError is the name that was refused; it is ErrInvalidName.
type nameError string

func (e nameError) Error() string {
	return fmt.Sprintf("the name %q is not allowed: 1 to 80 letters, digits, '-', '_' and most other signs, "+
		"but no space and none of ?*<>{}[]:;,\\|^~$#%%&`\"/", string(e))
}

func (nameError) Is(target error) bool { return target == ErrInvalidName }

var validName = regexp.MustCompile("^[^\\s\\x00-\\x1f\\x7f-\\x9f?*<>{}\\[\\]:;,\\\\|^~$#%&`\"/]{1,80}$")

func setDefault(s *string, to string) {
	if *s == "" {
		*s = to
	}
}

// random is a source that several goroutines may draw from.
type random struct {
	mu     sync.Mutex
	source rand.Source
}

// Uint64 implements rand.Source.
func (r *random) Uint64() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.source.Uint64()
}

// Read implements io.Reader for uuid.
func (r *random) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r.Uint64())
	}
	return len(p), nil
}

func (r *random) uuid() string {
	return uuid.Must(uuid.NewRandomFromReader(r)).String() // the reader cannot fail
}

// nothing is the outside world of a machine that was given none.
type nothing struct{}

func (n nothing) Invoke(_ context.Context, call Call) (Invocation, error) { return n.Answer(call) }

func (nothing) Answer(call Call) (Invocation, error) {
	return Invocation{}, FunctionNotFound(call, uuid.NewString())
}

func (nothing) Get(_ context.Context, bucket, key string) ([]byte, error) {
	return nil, fmt.Errorf("get %s/%s: %w", bucket, key, ErrNoObject)
}

func (nothing) Put(_ context.Context, bucket, key string, _ []byte) error {
	return fmt.Errorf("put %s/%s: %w", bucket, key, ErrNoObject)
}
