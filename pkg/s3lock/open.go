package s3lock

import (
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/lockstep-pipeline/lockstep/pkg/bucket"
	"github.com/lockstep-pipeline/lockstep/pkg/lease"
)

// Open returns the lock that is kept in the object at key, for a client that
// needs nothing special of its bucket; see New for one that does. It does not
// dial. Whoever is to exclude others needs an owner of its own:
//
//	lock, err := s3lock.Open(client, "my-bucket", "locks/nightly.json", lease.Config{})
//	err = lock.Do(ctx, lease.UniqueOwner("nightly"), work)
func Open(client *s3.Client, bucketName, key string, config lease.Config) (*lease.Lock, error) {
	b, err := bucket.New(client, bucketName, bucket.Options{})
	if err != nil {
		return nil, err
	}
	register, err := New(b, key)
	if err != nil {
		return nil, err
	}
	return lease.New(register, config)
}
