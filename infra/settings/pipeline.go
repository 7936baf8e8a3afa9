package settings

import (
	"errors"
	"maps"
	"slices"

	"github.com/lockstep-pipeline/lockstep/internal/step"
)

// PipelineNames lists the pipelines in order.
func (s *Settings) PipelineNames() []string { return slices.Sorted(maps.Keys(s.Pipelines)) }

// readRun turns the run configuration into what the functions understand by it.
func (p *Pipeline) readRun(path string) error {
	if len(p.Run) == 0 {
		return refuse(path, "is missing; give the run configuration, as in events/schedule.json")
	}
	members, err := membersOf(p.Run)
	if err != nil {
		return refuse(path, "is %s; it must be an object such as events/schedule.json", excerpt(p.Run))
	}
	for _, m := range members {
		if m.name == "pipeline" && string(m.value) != string(quoted(p.Name)) {
			return refuse(path+".pipeline", "is %s, but the pipeline is called %q; leave it out", excerpt(m.value), p.Name)
		}
	}
	p.Config, err = step.ParseConfig(p.Input(func(bucket string) string { return bucket }))
	if invalid := (*step.InvalidConfigError)(nil); errors.As(err, &invalid) {
		return refuse(path+"."+invalid.Field, "%s", invalid.Problem)
	}
	return err
}

// Input is the run configuration that the schedule passes to the state
// machine, as compact JSON. name gives a bucket's real name.
func (p *Pipeline) Input(name func(bucket string) string) []byte {
	members, _ := membersOf(p.Run) // readRun has seen them
	members = withDefault(members, "trigger", quoted("schedule"))
	members = withDefault(members, "pipeline", quoted(p.Name))
	for _, role := range []string{"state", "destination", "source"} {
		members = withDefault(members, role, raw(`{}`))
		for i, m := range members {
			if m.name == role {
				members[i].value = withBucket(m.value, role, name)
			}
		}
	}
	return objectOf(members)
}

// withBucket fills in a location's bucket. What is not an object is left to
// ParseConfig, which says so.
func withBucket(location raw, role string, name func(bucket string) string) raw {
	members, err := membersOf(location)
	if err != nil {
		return location
	}
	members = withDefault(members, "bucket", quoted(standIn+role))
	for i, m := range members {
		if bucket, is := text(m.value); is && m.name == "bucket" {
			members[i].value = quoted(name(bucket))
		}
	}
	return objectOf(members)
}

// withDefault puts a member in front unless there is one of that name.
func withDefault(members []member, name string, value raw) []member {
	if slices.ContainsFunc(members, func(m member) bool { return m.name == name }) {
		return members
	}
	return append([]member{{name, value}}, members...)
}

// NoSuccessMinutes is how long no run may succeed before an alarm is raised; 0
// means for ever.
func (p *Pipeline) NoSuccessMinutes() int {
	switch given := p.Alarms.NoSuccessMinutes; {
	case given != nil:
		return *given
	case !p.Schedule.Enabled:
		return 0 // runs start by hand
	}
	return 4 * int(p.Schedule.Interval().Minutes())
}
