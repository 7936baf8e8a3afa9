// Command commit is the Lambda function that writes down what the run did.
package main

import "github.com/lockstep-pipeline/lockstep/functions"

func main() { functions.Start("commit") }
