package asl

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/lockstep-pipeline/lockstep/internal/asl/payload"
)

// toleranceFields are the fields that say how many children of a distributed Map may fail.
type toleranceFields struct {
	hasCount       bool
	count          count
	hasPercentage  bool
	percentage     float64
	percentagePath *payload.Reference
}

// A tolerance is what they come to in one execution.
type tolerance struct {
	hasCount, hasPercentage bool
	count                   int64
	percentage              float64
}

func (t toleranceFields) resolve(c *chain, input any) (tolerance, error) {
	r := tolerance{hasCount: t.hasCount, hasPercentage: t.hasPercentage, percentage: t.percentage}
	var err error
	if r.count, err = t.count.resolve(c, input); err != nil {
		return r, err
	}
	if r.count < 0 {
		return r, c.runtime("ToleratedFailureCount cannot be negative.")
	}
	if t.percentagePath != nil {
		v, err := t.percentagePath.Lookup(c.see(input))
		if err != nil {
			return r, err
		}
		number, _ := v.(json.Number)
		if r.percentage, err = number.Float64(); err != nil {
			return r, c.runtime("The ToleratedFailurePercentagePath field refers to value \"%s\" which is not a valid float: %s",
				plain(v), t.percentagePath)
		}
	}
	if r.percentage < 0 || r.percentage > 100 {
		return r, c.runtime("ToleratedFailurePercentage must be between 0 and 100.")
	}
	return r, nil
}

// exceeded reports whether so many failures are too many; exactly the tolerated number is not. If nothing is tolerated
// explicitly, one is too many.
func (t tolerance) exceeded(failed, total int) bool {
	switch {
	case t.hasCount && int64(failed) > t.count:
		return true
	case t.hasPercentage && float64(failed)*100 > t.percentage*float64(total):
		return true
	}
	return failed > 0 && !t.hasCount && !t.hasPercentage
}

// floatText writes a number with a fraction, as Java does: 0.0.
func floatText(f float64) string {
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
