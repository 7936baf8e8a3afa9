// Command discover is the Lambda function that finds what is new and writes the manifest.
package main

import "github.com/lockstep-pipeline/lockstep/functions"

func main() { functions.Start("discover") }
