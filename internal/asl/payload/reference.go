package payload

// Reference is a reference path: a path that can name one place only, made of
// $, fixed keys and fixed indexes.
type Reference struct {
	path Path
}

// ParseReference reads a reference path on the input: ResultPath, SecondsPath
// and the other numeric paths. $$ is refused, as AWS refuses it there. The
// error is AWS's sentence, "Value is not a Reference Path: …".
func ParseReference(text string) (Reference, error) { panic("not built yet") }

// ParseVariable reads a reference path that may also start with $$: the
// Variable of a Choice rule and the paths it is compared with.
func ParseVariable(text string) (Reference, error) { panic("not built yet") }

// String returns the path as it was written.
func (r Reference) String() string { return r.path.text }

// Lookup returns what the reference names, or fails as [Path.Lookup] does.
// Most fields have a sentence of their own for a path that leads to nothing;
// test the error for [ErrNotFound] and write that instead.
func (r Reference) Lookup(s Scope) (any, error) { return r.path.Lookup(s) }

// Insert returns raw with result put at the place that r names, as ResultPath
// does. Objects that are missing on the way are created; $ alone returns
// result. raw itself is not changed. Where r cannot be applied (a key below
// something that is not an object, an index that does not exist) the failure
// is named [ErrorReferencePathConflict].
func (r Reference) Insert(raw, result any) (any, error) { panic("not built yet") }
