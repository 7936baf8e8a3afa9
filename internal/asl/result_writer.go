package asl

import (
	"fmt"
	"path"

	"github.com/lockstep-pipeline/lockstep/internal/asl/payload"
)

// A resultWriter exports what became of the children of a distributed Map to S3, in the layout of AWS: one folder for
// the Map Run, with a manifest and a file for each status that occurred.
type resultWriter struct {
	parameters payload.Template
}

// A target is where a resultWriter writes in one Map Run.
type target struct {
	bucket, folder string
	run            *MapRun
}

func (w resultWriter) locate(c *chain, input any, run *MapRun) (target, error) {
	bucket, prefix, err := c.location(w.parameters, input, "Prefix")
	return target{bucket: bucket, folder: path.Join(prefix, run.id), run: run}, err
}

func (t target) manifest() string { return t.folder + "/manifest.json" }

// result is the result of the state.
func (t target) result() any {
	return map[string]any{
		"MapRunArn":           t.run.arn,
		"ResultWriterDetails": map[string]any{"Bucket": t.bucket, "Key": t.manifest()},
	}
}

// test writes a manifest without files, before any child has started.
func (t target) test(c *chain) error {
	err := t.put(c, t.manifest(), t.list(nil))
	if f, ok := err.(*failure); ok {
		return fail(errorResultWriter, "Failed to write a test manifest into the specified output bucket. "+deref(f.Cause))
	}
	return err
}

// write exports the children and then the manifest that names the files.
func (t target) write(c *chain, a *mapAttempt) error {
	records := map[string][]any{}
	children := t.run.Children()
	for _, child := range children {
		group := "FAILED"
		if child.Status() == StatusSucceeded {
			group = "SUCCEEDED"
		}
		records[group] = append(records[group], child.asRecord())
	}
	for i := len(children); i < len(a.items); i++ {
		input, err := a.child(c, a.input, i, a.items[i])
		if err != nil {
			return c.failed(err)
		}
		records["PENDING"] = append(records["PENDING"], map[string]any{
			"Input": payload.Encode(input), "InputDetails": included, "Status": "PENDING", "StateMachineArn": t.run.machineARN,
		})
	}
	files := map[string][]any{}
	for _, group := range groups {
		list := records[group]
		if len(list) == 0 {
			continue
		}
		key := fmt.Sprintf("%s/%s_0.json", t.folder, group)
		text := payload.Encode(list)
		if err := t.put(c, key, text); err != nil {
			return err
		}
		files[group] = []any{map[string]any{"Key": key, "Size": payload.Integer(int64(len(text)))}}
	}
	return t.put(c, t.manifest(), t.list(files))
}

// groups are the kinds of result files, in the order of the manifest.
var groups = []string{"FAILED", "PENDING", "SUCCEEDED"}

// list is the text of a manifest.
func (t target) list(files map[string][]any) string {
	results := map[string]any{}
	for _, group := range groups {
		results[group] = append([]any{}, files[group]...)
	}
	return payload.Encode(map[string]any{
		"DestinationBucket": t.bucket, "MapRunArn": t.run.arn, "ResultFiles": results,
	})
}

func (t target) put(c *chain, key, text string) error {
	var err error
	if stopped := c.outside(func() { err = c.exec.m.cfg.Objects.Put(c.scope.ctx, t.bucket, key, []byte(text)) }); stopped != nil {
		return stopped
	}
	if err != nil {
		return fail(errorResultWriter, err.Error())
	}
	return nil
}

var included = map[string]any{"Included": true}

// record is what a result file tells of an ended child.
func (e *Execution) asRecord() any {
	d := e.Describe()
	r := map[string]any{
		"ExecutionArn": d.ExecutionARN, "Input": d.Input, "InputDetails": included, "Name": d.Name,
		"RedriveCount": payload.Integer(0), "RedriveStatus": string(d.RedriveStatus),
		"StartDate": timestamp(e.start), "StateMachineArn": d.StateMachineARN, "Status": string(d.Status),
		"StopDate": timestamp(e.stop),
	}
	if d.RedriveStatusReason != "" {
		r["RedriveStatusReason"] = d.RedriveStatusReason
	}
	if d.Output != nil {
		r["Output"], r["OutputDetails"] = *d.Output, included
	}
	if d.Error != nil {
		r["Error"] = *d.Error
	}
	if d.Cause != nil {
		r["Cause"] = *d.Cause
	}
	return r
}

// result is what stands for the child in the array that is the result of a Map without ResultWriter.
func (e *Execution) result() any {
	d := e.Describe()
	if d.Status != StatusSucceeded {
		return e.asRecord()
	}
	v, err := payload.Decode([]byte(*d.Output))
	if err != nil {
		panic("asl: an output that this package encoded does not decode: " + err.Error())
	}
	return v
}
