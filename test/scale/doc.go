// Package scale measures what a pipeline costs when its source and its ledger
// have millions of files, each figure against a baseline of the same run.
//
// It promises of a run that passed that
//   - a discovery over all files found exactly those that the ledger does not
//     have, key by key, and read each page of the listing about once;
//   - a commit of a thousand outcomes wrote in proportion to them, and nothing
//     like the whole ledger;
//   - a run of the real state machine and the real functions took as many new
//     files as the whole small test has, within the limits of Step Functions.
//
// From a million files on it also holds time and memory to their bounds:
//
//   - memory: the most that the discovering process ever had resident (VmHWM);
//     the servers, with the ledger in memory, are another process;
//   - CPU: user and system time of the discovery over that of a bare loop over
//     the same pages by the SDK's paginator, in a process of its own. Over such
//     a loop by the client of a discovery, which reads pages faster than the
//     SDK, it is given, too.
//   - time: a listing page after page over a discovery, where each page takes
//     50 ms. The former is measured over a tenth of the pages unless -whole is
//     given.
//
// The source is made up as it is asked for (see listings); what it answers is
// held against a bucket that stores its keys. Ledgers are kept by s3test behind
// a TCP listener, which counts the bytes of every request.
//
// Time and CPU are those of a machine with nothing else to do: where others want
// the cores too, a discovery of many requests at a time loses what a listing
// that waits for each page does not.
//
// It does not measure S3: a real listing takes 50 to 200 ms a page, throttles
// by prefix, and travels over TLS.
//
//	go test ./test/scale                       # a few seconds, no clock is looked at
//	make scale                                 # ten million files; some ten minutes
//	make scale SCALE=1000000                   # one million
//	go test ./test/scale -v -scale 10000000 -profile DIR -timeout 2h
package scale
