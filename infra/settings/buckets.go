package settings

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/lockstep-pipeline/lockstep/internal/step"
)

// A Bucket is one that the stack's pipelines work on.
type Bucket struct {
	// Name is the bucket's name, or a stand-in where AWS is to choose one.
	Name string
	// Role is "source", "destination" or "state" for a bucket whose name AWS
	// chooses, else "".
	Role string
	// Created says that the stack makes it.
	Created bool
}

// Stand-ins for buckets that a run configuration leaves out: the functions'
// rules let them pass, and no bucket in S3 can have such a name.
const standIn = "NEW_"

// Buckets lists the buckets of all pipelines, by name.
func (s *Settings) Buckets() []Bucket { return s.buckets }

// collectBuckets finds them, once every pipeline has its configuration.
func (s *Settings) collectBuckets() error {
	all := map[string]Bucket{}
	for _, name := range s.PipelineNames() {
		for _, place := range s.Pipelines[name].Places() {
			b := Bucket{Name: place.At.Bucket}
			if role, generated := strings.CutPrefix(b.Name, standIn); generated {
				b.Role, b.Created = role, true
			} else if !bucketName.MatchString(b.Name) {
				return refuse("pipelines."+name+".run."+place.Role+".bucket", "%q is no bucket name of S3: 3 to 63 lower-case letters, digits, dots and hyphens", b.Name)
			}
			all[b.Name] = b
		}
	}
	for _, name := range s.CreateBuckets {
		b, used := all[name]
		if !used {
			return refuse("createBuckets", "has %q, which no pipeline names; remove it, or name it in a run configuration", name)
		}
		if b.Created {
			return refuse("createBuckets", "has %q twice; keep one", name)
		}
		b.Created = true
		all[name] = b
	}
	s.buckets = slices.SortedFunc(maps.Values(all), func(a, b Bucket) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// A Place is one of a pipeline's three.
type Place struct {
	Role string // "source", "destination" or "state"
	At   step.Location
}

// Places lists source, destination and state.
func (p *Pipeline) Places() []Place {
	return []Place{{"source", p.Config.Source}, {"destination", p.Config.Destination.Location()}, {"state", p.Config.State}}
}

// checkPlaces keeps the locks and ledgers of different pipelines apart, and
// prefixes to what a policy can name.
func (s *Settings) checkPlaces() error {
	names := s.PipelineNames()
	for _, name := range names {
		for _, place := range s.Pipelines[name].Places() {
			if strings.ContainsAny(place.At.Prefix, "*?$") {
				return refuse("pipelines."+name+".run."+place.Role+".prefix", "%q has one of *, ? and $, which mean something else in the policies that give access to it", place.At.Prefix)
			}
		}
		for _, other := range names {
			if name == other {
				continue
			}
			mine, theirs := s.Pipelines[name].Config, s.Pipelines[other].Config
			at := "pipelines." + name + ".run."
			switch {
			case within(mine.State, theirs.State):
				return refuse(at+"state.prefix", "%q lies in the state of pipeline %q, %q: their locks and ledgers would meet; give each a folder of its own", mine.State.Prefix, other, theirs.State.Prefix)
			case within(mine.Destination.Location(), theirs.State):
				return refuse(at+"destination.prefix", "%q lies in the state of pipeline %q, %q; move one of them", mine.Destination.Prefix, other, theirs.State.Prefix)
			case within(theirs.State, mine.Source):
				return refuse(at+"source.prefix", "%q holds the state of pipeline %q, %q, which would be taken for new files; move one of them", mine.Source.Prefix, other, theirs.State.Prefix)
			}
		}
	}
	return nil
}

func within(inner, outer step.Location) bool {
	return inner.Bucket == outer.Bucket && strings.HasPrefix(inner.Prefix, outer.Prefix)
}
