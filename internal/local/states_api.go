package local

// statesTarget begins the X-Amz-Target of every Step Functions operation.
const statesTarget = "AWSStepFunctions."
