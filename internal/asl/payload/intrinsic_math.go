package payload

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/google/uuid"
)

// mathAdd rounds each number to the nearest integer, halves up, before adding
// (recorded). A sum outside 32 bits fails (measured).
func mathAdd(_ Scope, _ *call, args []any) (any, error) {
	a, err := asInt32(args[0], roundHalfUp)
	if err != nil {
		return nil, err
	}
	b, err := asInt32(args[1], roundHalfUp)
	if err != nil {
		return nil, err
	}
	sum := a + b
	if sum < math.MinInt32 || sum > math.MaxInt32 {
		return nil, fmt.Errorf("the sum %d is no 32-bit integer", sum)
	}
	return Integer(sum), nil
}

// mathRandom includes the start, excludes the end and cuts fractions off
// (measured; the guide says that they are rounded). With a seed the result is
// always the same, but not the one that AWS would give: its generator is not
// documented.
func mathRandom(s Scope, _ *call, args []any) (any, error) {
	start, err := asInt32(args[0], math.Trunc)
	if err != nil {
		return nil, err
	}
	end, err := asInt32(args[1], math.Trunc)
	if err != nil {
		return nil, err
	}
	if start >= end {
		return nil, fmt.Errorf("there is no integer from %d to before %d", start, end)
	}
	random := s.random()
	if len(args) == 3 {
		seed, ok := Int64(args[2])
		if !ok {
			return nil, errors.New("the seed is no integer")
		}
		random = rand.New(rand.NewPCG(uint64(seed), 0))
	}
	return Integer(start + random.Int64N(end-start)), nil
}

// newUUID makes a version 4 UUID.
func newUUID(s Scope, _ *call, _ []any) (any, error) {
	random := s.random()
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:8], random.Uint64())
	binary.BigEndian.PutUint64(id[8:], random.Uint64())
	id[6] = id[6]&0x0f | 0x40 // version 4
	id[8] = id[8]&0x3f | 0x80 // the variant of RFC 9562
	return id.String(), nil
}
