// Command process is the Lambda function that turns one batch of files into Parquet.
package main

import "github.com/lockstep-pipeline/lockstep/functions"

func main() { functions.Start("process") }
