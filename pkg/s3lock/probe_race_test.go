package s3lock

import (
	"errors"
	"strings"
	"testing"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
)

// What rivals were told and what the object holds then: which go together.
func TestJudgeOfARace(t *testing.T) {
	at := func(content, etag string) version { return version{content, bucket.Written{ETag: etag}} }
	won := func(content string) rival { return rival{version: at(content, "e-"+content)} }
	told := func(err error) func(string) rival {
		return func(content string) rival { return rival{version: at(content, ""), err: err} }
	}
	lost, busy, lostReply := told(bucket.ErrPrecondition), told(bucket.ErrConflict), told(errors.New("no answer"))
	before := at("before", "e-before")
	for _, c := range []struct {
		name   string
		rivals []rival
		now    version
		says   string // "" is fine
	}{
		{"one won", []rival{lost("a"), won("b"), busy("c")}, at("b", "e-b"), ""},
		{"one won, one got no answer", []rival{won("a"), lostReply("b")}, at("a", "e-a"), ""},
		{"the one without an answer won", []rival{lost("a"), lostReply("b")}, at("b", "e-b"), ""},
		{"nobody won", []rival{busy("a"), busy("b"), lostReply("c")}, before, ""},
		{"two won", []rival{won("a"), won("b"), lost("c")}, at("b", "e-b"), "2 of them"},
		{"a loser's write is there", []rival{won("a"), lost("b")}, at("b", "e-b"), "told it had lost"},
		{"a loser's write is there, nobody won", []rival{busy("a"), busy("b")}, at("b", "e-b"), "told it had lost"},
		{"the winner's write is not there", []rival{won("a"), lost("b")}, before, "not there"},
		{"two landed", []rival{won("a"), lostReply("b")}, at("b", "e-b"), "got no answer"},
		{"nobody wrote this", []rival{won("a"), lost("b")}, at("x", "e-x"), "none of them wrote"},
		{"another ETag", []rival{won("a"), lost("b")}, at("a", "e-other"), "e-other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := judge(c.rivals, before, c.now)
			if (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
				t.Errorf("%q, want %q", got, c.says)
			}
		})
	}
}
