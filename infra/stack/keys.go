package stack

import (
	"strings"

	"github.com/lockstep-pipeline/lockstep/infra/settings"
	"github.com/lockstep-pipeline/lockstep/internal/step"
)

// keys are where a pipeline's things lie in its state bucket.
type keys struct {
	lock    string // the object
	ledgers string // a folder for each source bucket, and so end those below
	ledger  string // that of the pipeline's own source
	runs    string

	manifests string // pattern: of all runs
	results   string // pattern: what processing calls leave
	progress  string // pattern
	probes    string // pattern: what a trial of the lock's place leaves for a moment
}

// keys asks the package that builds the keys. ledger has the source bucket's
// real name, which only the deployment may know.
func (b *builder) keys(p *settings.Pipeline) keys {
	config := p.Config
	ledgers := strings.TrimSuffix(step.LedgerPrefix(config), config.Source.Bucket+"/")
	config.Source.Bucket = b.bucketName(config.Source.Bucket)
	runs := step.RunsPrefix(config)
	return keys{
		lock:    step.LockKey(config),
		ledgers: ledgers,
		ledger:  step.LedgerPrefix(config),
		runs:    runs,

		manifests: runs + "*/manifest-*.json",
		results:   runs + "*/results/*",
		progress:  runs + "*/progress.json",
		probes:    config.State.Prefix + ".lockstep-probe-*",
	}
}

// bucketName is a bucket's real name.
func (b *builder) bucketName(name string) string {
	if generated, known := b.generated[name]; known {
		return *generated.BucketName()
	}
	return name
}
