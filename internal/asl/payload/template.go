package payload

// Template is a payload template: Parameters, ItemSelector, ResultSelector, or
// the Parameters of an ItemReader or ResultWriter.
type Template struct{}

// ParseTemplate reads a template from its JSON value, which must be an object.
// In it and in all objects and arrays below, a key that ends in ".$" has its
// value evaluated and loses those two characters; everything else is literal,
// including Comment. All problems are reported, in order of their place.
func ParseTemplate(v any) (Template, []Problem) { panic("not built yet") }

// Evaluate builds the value that the template describes.
func (t Template) Evaluate(s Scope) (any, error) { panic("not built yet") }
