package bucket

import (
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// Options rides on every request to the bucket, so that a bucket policy is met
// by the lock, the ledger and the outputs alike. The zero value asks for
// nothing that S3 does not do by itself.
type Options struct {
	// Encryption names the server-side encryption of every write: "AES256",
	// "aws:kms" or "aws:kms:dsse". Empty means the bucket's default, or
	// "aws:kms" when KMSKeyID is set.
	Encryption string
	// KMSKeyID is the key for SSE-KMS: an id, an alias or an ARN.
	KMSKeyID string
	// ExpectedOwner is the account id that must own the bucket; S3 answers 403
	// when somebody else does.
	ExpectedOwner string
	// Checksum names the algorithm sent with every write: "CRC32", "CRC32C",
	// "CRC64NVME", "SHA1", "SHA256" or "SHA512". Empty leaves it to the client,
	// which sends a CRC32 unless AWS_REQUEST_CHECKSUM_CALCULATION is
	// "when_required".
	//
	// Over HTTP the checksum is a header. Over HTTPS the SDK sends it behind the
	// body (aws-chunked with a trailer), which some S3-compatible stores refuse;
	// for those leave Checksum empty and set that variable.
	Checksum string
	// RequesterPays accepts the charges of a requester-pays bucket.
	RequesterPays bool
}

// checksums are the algorithms that the SDK computes; it knows the names of
// more, and fails at the first write with one of those.
var checksums = []string{"CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256", "SHA512"}

func (o Options) validate() error {
	if o.Checksum != "" && !slices.Contains(checksums, o.Checksum) {
		return fmt.Errorf("checksum %q is not one of %v", o.Checksum, checksums)
	}
	switch types.ServerSideEncryption(o.Encryption) {
	case "", types.ServerSideEncryptionAwsKms, types.ServerSideEncryptionAwsKmsDsse:
		return nil
	case types.ServerSideEncryptionAes256:
		if o.KMSKeyID != "" {
			return fmt.Errorf("encryption %q takes no KMS key: drop the key, or ask for \"aws:kms\"", o.Encryption)
		}
		return nil
	}
	return fmt.Errorf(`encryption %q is not one of "AES256", "aws:kms", "aws:kms:dsse"`, o.Encryption)
}

func (o Options) encryption() types.ServerSideEncryption {
	if o.Encryption == "" && o.KMSKeyID != "" {
		return types.ServerSideEncryptionAwsKms
	}
	return types.ServerSideEncryption(o.Encryption)
}

func (o Options) payer() types.RequestPayer {
	if o.RequesterPays {
		return types.RequestPayerRequester
	}
	return ""
}
