//go:build !race

package lease

// RaceDetector is for the tests of both packages.
const RaceDetector = false
