package main

import (
	"context"
	"errors"
)

// configuration reads the run configuration from the file, or from the outputs
// of the stack. Its error was explained already.
func (f *pipelineFlags) configuration(ctx context.Context, to *console) ([]byte, error) {
	switch {
	case (f.Config == "") == (f.Stack == ""):
		return nil, refuse(to.Err, errors.New("say which pipeline: give the file with its run configuration, or --stack"))
	case f.Stack == "" && f.Pipeline != "":
		return nil, refuse(to.Err, errOfStack)
	case f.Config != "":
		config, err := readGiven(f.Config, to.In)
		if err != nil {
			return nil, refuse(to.Err, err)
		}
		return config, nil
	}
	p, err := f.find(ctx, f.s3Flags.aws())
	if err != nil {
		return nil, explainAWS(ctx, to.Err, err)
	}
	f.Region = f.s3Flags.aws().at(p.Machine).Region
	return p.Run, nil
}

// named is the pipeline as it was named on the command line, for a shell.
func (f pipelineFlags) named() string {
	if f.Stack == "" {
		return shellWord(f.Config)
	}
	return f.stackFlags.named()
}
