package local

import (
	"os"
	"path/filepath"
)

// lambdaMemory is what every function is told that it has, in MiB. Nothing
// enforces it.
const lambdaMemory = "1024"

// environment is what a function process sees: what Lambda gives, where to
// find this stack's services, and of ours only what finding files needs.
func environment(fn Function, process, gateway string) []string {
	endpoint := "http://" + gateway
	env := []string{
		"AWS_LAMBDA_RUNTIME_API=" + gateway + runtimePath + process,
		"AWS_LAMBDA_FUNCTION_NAME=" + fn.Name,
		"AWS_LAMBDA_FUNCTION_VERSION=$LATEST",
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=" + lambdaMemory,
		"AWS_LAMBDA_INITIALIZATION_TYPE=on-demand",
		"AWS_LAMBDA_LOG_GROUP_NAME=/aws/lambda/" + fn.Name,
		"AWS_LAMBDA_LOG_STREAM_NAME=" + process,
		"_HANDLER=bootstrap",
		"LAMBDA_TASK_ROOT=" + filepath.Dir(fn.Argv[0]),
		"TZ=UTC",

		"AWS_REGION=" + Region,
		"AWS_DEFAULT_REGION=" + Region,
		"AWS_ACCESS_KEY_ID=" + accessKeyID,
		"AWS_SECRET_ACCESS_KEY=" + secretAccessKey,
		// The user's own AWS set-up lies in HOME and must not be mixed in.
		"AWS_CONFIG_FILE=" + os.DevNull,
		"AWS_SHARED_CREDENTIALS_FILE=" + os.DevNull,
		"AWS_EC2_METADATA_DISABLED=true",
		// kumo sends no checksums; the SDK would log that for every object.
		"AWS_RESPONSE_CHECKSUM_VALIDATION=when_required",

		"AWS_ENDPOINT_URL_S3=" + endpoint,
		"AWS_ENDPOINT_URL_SFN=" + endpoint,
		"LOCKSTEP_S3_PATH_STYLE=true",
	}
	for _, name := range []string{"PATH", "HOME", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return append(env, fn.Env...)
}
