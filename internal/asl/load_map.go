package asl

import (
	"strings"
	"unicode/utf8"

	"github.com/lockstep-pipeline/lockstep/internal/asl/payload"
)

func (s stateLoader) maps() []string {
	s.inputAndOutput()
	s.transition()
	s.to.resultSelector = s.template("ResultSelector")
	s.to.resultPath = s.resultPathField()
	s.retriers()
	s.catchers()

	var w mapWork
	w.itemsPath = s.path("ItemsPath", false)
	w.maxConcurrency, _ = s.count("MaxConcurrency", unbounded)
	s.exclusive("ItemSelector", "Parameters")
	if w.selector = s.template("ItemSelector"); w.selector == nil {
		w.selector = s.template("Parameters")
	}
	s.exclusive("ItemProcessor", "Iterator")
	name := "ItemProcessor"
	if s.get(name) == nil && s.get("Iterator") != nil {
		name = "Iterator"
	}
	distributed, express := false, false
	s.required(name)
	if n := s.typed(name, isObject); n != nil {
		f := s.open(n)
		f.comment()
		distributed, express = f.processorConfig()
		w.processor = s.flow(f)
		f.close()
	}
	if distributed {
		s.distributed(w, express)
		return []string{"ItemBatcher", "Assign"}
	}
	s.to.work = inlineMap{w}
	return []string{"ItemBatcher", "Assign", "ItemReader", "ResultWriter", "Label", "ToleratedFailureCount",
		"ToleratedFailureCountPath", "ToleratedFailurePercentage", "ToleratedFailurePercentagePath"}
}

const unbounded = 1<<31 - 1

func (f *fields) processorConfig() (distributed, express bool) {
	n := f.typed("ProcessorConfig", isObject)
	if n == nil {
		return false, false
	}
	config := f.open(n)
	distributed = config.choice("Mode", "INLINE", "DISTRIBUTED") == "DISTRIBUTED"
	if distributed && config.required("ExecutionType") {
		express = config.choice("ExecutionType", "STANDARD", "EXPRESS") == "EXPRESS"
	}
	config.close()
	return distributed, express
}

// distributed reads the fields that only a distributed Map has.
func (s stateLoader) distributed(shared mapWork, express bool) {
	w := distributedMap{mapWork: shared, express: express, label: s.label()}
	w.reader = s.itemReader()
	if w.reader != nil && s.get("ItemsPath") != nil {
		s.notExecuted(s.n.location(), "ItemsPath next to ItemReader is not executed by this interpreter: it has no effect")
	}
	w.writer = s.resultWriter()
	t := &w.tolerated
	t.count, t.hasCount = s.count("ToleratedFailureCount", unbounded)
	s.exclusive("ToleratedFailurePercentage", "ToleratedFailurePercentagePath")
	if v := s.number("ToleratedFailurePercentage", 0, 100); v != nil {
		t.percentage, t.hasPercentage = *v, true
	}
	if t.percentagePath = s.reference("ToleratedFailurePercentagePath"); t.percentagePath != nil {
		t.hasPercentage = true
	}
	s.to.work = w
}

// label reads Label: up to 40 characters that can stand in an ARN.
func (s stateLoader) label() string {
	text := s.text("Label")
	if text == nil {
		return ""
	}
	at := s.get("Label").location()
	if n := utf8.RuneCountInString(*text); n == 0 || n > 40 || strings.ContainsAny(*text, " ?*<>{}[]:;,\\|^~$#%&\"`") ||
		strings.ContainsFunc(*text, func(r rune) bool { return r <= 0x1f || r >= 0x7f && r <= 0x9f }) {
		s.add(Diagnostic{Code: CodeLabel, Location: at, Message: "Invalid label: " + *text,
			Detail: "a label has 1 to 40 characters, no space, no control character and none of ?*<>{}[]:;,\\|^~$#%&\"`"})
	}
	if s.labels[*text] {
		s.report(CodeSameLabel, at, "Duplicate label: %s", *text)
	}
	s.labels[*text] = true
	return *text
}

func (s stateLoader) itemReader() *itemReader {
	n := s.typed("ItemReader", isObject)
	if n == nil {
		return nil
	}
	f := s.open(n)
	r := &itemReader{}
	f.required("Resource", "Parameters", "ReaderConfig")
	f.onlyResource("arn:aws:states:::s3:getObject")
	if t := f.location("Bucket", "Key"); t != nil {
		r.parameters = *t
	}
	if config := f.typed("ReaderConfig", isObject); config != nil {
		c := s.open(config)
		if c.required("InputType") {
			if kind := c.text("InputType"); kind != nil && *kind != "JSON" {
				s.notExecuted(c.get("InputType").location(), "InputType '%s' is not executed by this interpreter, only 'JSON'", *kind)
			}
		}
		r.maxItems, _ = c.count("MaxItems", 100000000)
		c.close("CSVHeaderLocation", "CSVHeaders", "CSVDelimiter", "Transformation", "ManifestType", "ItemsPointer")
	}
	f.close()
	return r
}

func (s stateLoader) resultWriter() *resultWriter {
	n := s.typed("ResultWriter", isObject)
	if n == nil {
		return nil
	}
	f := s.open(n)
	f.required("Resource", "Parameters")
	f.onlyResource("arn:aws:states:::s3:putObject")
	w := &resultWriter{}
	if t := f.location("Bucket", "Prefix"); t != nil {
		w.parameters = *t
	}
	f.close("WriterConfig")
	return w
}

func (f *fields) onlyResource(want string) {
	if got := f.text("Resource"); got != nil && *got != want {
		f.notExecuted(f.get("Resource").location(), "The resource '%s' is not executed by this interpreter, only '%s'", *got, want)
	}
}

// location reads the Parameters of a reader or writer: a bucket, and a key or a prefix, which alone may be missing.
func (f *fields) location(bucket, second string) *payload.Template {
	n := f.typed("Parameters", isObject)
	if n == nil {
		return nil
	}
	p := f.open(n)
	for _, name := range []string{bucket, second} {
		literal, dynamic := p.typed(name, isString), p.get(name+".$")
		if literal == nil && dynamic == nil && p.get(name) == nil && name != "Prefix" {
			f.loader.required(n.location(), name)
		}
	}
	p.close("ExpectedBucketOwner", "VersionId")
	return f.template("Parameters")
}
