package local

import (
	"context"

	"github.com/google/uuid"

	"github.com/lockstep-pipeline/lockstep/internal/asl"
)

// functions is the stack's Lambda as Task states see it.
type functions struct {
	pools map[string]*pool // by name
}

// Invoke implements asl.Lambda.
func (f functions) Invoke(ctx context.Context, call asl.Call) (asl.Invocation, error) {
	p, ok := f.pools[call.Function()]
	if !ok || call.FunctionARN != functionARN(call.Function()) || (call.Qualifier != "" && call.Qualifier != "$LATEST") {
		return asl.Invocation{}, asl.FunctionNotFound(call, uuid.NewString())
	}
	inv, err := p.invoke(ctx, call.Payload)
	if err != nil {
		return asl.Invocation{}, err
	}
	if inv.ErrorType != "" {
		return asl.Invocation{}, &asl.FunctionError{Type: inv.ErrorType, Body: string(inv.Payload)}
	}
	return asl.Invocation{Payload: inv.Payload}, nil
}
