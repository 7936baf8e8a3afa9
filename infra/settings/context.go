package settings

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// FromContext reads the settings from the value of the context: an object, as
// cdk.json has it, or text, as -c gives it. Text that begins with "@" names a
// file, from root where it is no absolute path.
func FromContext(value any, root string) (*Settings, error) {
	switch v := value.(type) {
	case nil:
		return nil, refuse("", "is missing; put it into cdk.json, or give -c %s=@FILE", ContextKey)
	case string:
		path, isFile := strings.CutPrefix(v, "@")
		if !isFile {
			return Parse([]byte(v))
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(root, path)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, refuse("", "cannot be read: %v", err)
		}
		return Parse(text)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, refuse("", "is no JSON: %v", err)
	}
	return Parse(text)
}
