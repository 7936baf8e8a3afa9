// Command release is the Lambda function that gives the lock back, also for executions that no Catch saw end.
package main

import "github.com/lockstep-pipeline/lockstep/functions"

func main() { functions.Start("release") }
