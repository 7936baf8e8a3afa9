package payload

import "math/rand/v2"

// Scope is what paths and intrinsic functions see.
type Scope struct {
	// Input is the document that $ stands for.
	Input any
	// Context is the context object, which $$ stands for.
	Context any
	// Random feeds States.UUID and States.MathRandom. Nil means the process's
	// own random source. A source that is used from several goroutines at once
	// must be safe for that.
	Random rand.Source
}
