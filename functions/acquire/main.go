// Command acquire is the Lambda function that takes one turn at the run's lock.
package main

import "github.com/lockstep-pipeline/lockstep/functions"

func main() { functions.Start("acquire") }
