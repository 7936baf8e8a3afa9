package bucket

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Versions lists the versions of the object at key, the newest first, delete
// markers included. A bucket that keeps no versions has one, or none.
func (b *Bucket) Versions(ctx context.Context, key string) ([]Version, error) {
	var found []Version
	in := &s3.ListObjectVersionsInput{
		Bucket: &b.name, Prefix: &key, ExpectedBucketOwner: optional(b.options.ExpectedOwner), RequestPayer: b.options.payer(),
	}
	for {
		out, err := b.client.ListObjectVersions(ctx, in)
		if err != nil {
			return nil, callError("versions", b.name, key, err)
		}
		beyond := false // keys that begin with this one follow it
		for _, v := range out.Versions {
			if beyond = aws.ToString(v.Key) != key; beyond {
				continue
			}
			found = append(found, Version{
				VersionID: aws.ToString(v.VersionId), IsLatest: aws.ToBool(v.IsLatest), ETag: aws.ToString(v.ETag),
				Size: aws.ToInt64(v.Size), LastModified: aws.ToTime(v.LastModified),
			})
		}
		for _, m := range out.DeleteMarkers {
			if aws.ToString(m.Key) == key {
				found = append(found, Version{
					VersionID: aws.ToString(m.VersionId), IsLatest: aws.ToBool(m.IsLatest), DeleteMarker: true, LastModified: aws.ToTime(m.LastModified),
				})
			}
		}
		if !aws.ToBool(out.IsTruncated) || beyond {
			sortVersions(found)
			return found, nil
		}
		if aws.ToString(out.NextKeyMarker) == "" {
			return nil, callError("versions", b.name, key, errors.New("the answer says there is more and not where"))
		}
		in.KeyMarker, in.VersionIdMarker = out.NextKeyMarker, out.NextVersionIdMarker
	}
}

// GetVersion opens one version of the object at key.
func (b *Bucket) GetVersion(ctx context.Context, key, versionID string) (*Object, error) {
	object, _, err := b.get(ctx, key, getOptions{versionID: versionID})
	return object, err
}

// DeleteVersion removes one version of the object at key for good. Removing a
// delete marker brings the version before it back.
func (b *Bucket) DeleteVersion(ctx context.Context, key, versionID string) error {
	_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{
		Bucket: &b.name, Key: &key, VersionId: optional(versionID),
		ExpectedBucketOwner: optional(b.options.ExpectedOwner), RequestPayer: b.options.payer(),
	})
	if err != nil {
		return callError("delete", b.name, key, err)
	}
	return nil
}

// sortVersions puts the newest first. Versions and delete markers come in lists
// of their own, each newest first; times are whole seconds, so that the one that
// is current goes first whatever its time.
func sortVersions(versions []Version) {
	slices.SortStableFunc(versions, func(a, b Version) int {
		if a.IsLatest != b.IsLatest {
			if a.IsLatest {
				return -1
			}
			return 1
		}
		return b.LastModified.Compare(a.LastModified)
	})
}
