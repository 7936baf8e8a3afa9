// Package sam lets the AWS SAM command line invoke the functions, in the
// containers that it makes of Lambda's own images, against an S3 on this
// machine.
//
// It promises that SAM runs the binaries and the template that CDK made, under
// the logical ids that are deployed: Template adds nothing but names of
// environment variables, since SAM hands over no variable that the template
// does not have. And that the events in events/ make sense to the buckets of
// Start, in the order of a run.
//
// It does not promise that SAM is Lambda: see docs/sam.md for what differs.
//
//	go test ./test/sam                     # what needs neither SAM nor Docker
//	make sam-test                          # all of it, where Docker can be had
package sam
