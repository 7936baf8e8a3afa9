package bucket

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

const s3Root = `<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">`

// plainPages are as servers write them, and have to be read without the SDK:
// it would be right, and slow.
var plainPages = map[string]string{
	// After the API reference of ListObjectsV2 and what S3 adds to each object.
	"S3": `<?xml version="1.0" encoding="UTF-8"?>` + "\n" + s3Root + `<Name>bucket</Name><Prefix>in/</Prefix>` +
		`<NextContinuationToken>1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm36Hy4vbOwM=</NextContinuationToken><StartAfter>in/</StartAfter>` +
		`<KeyCount>2</KeyCount><MaxKeys>1000</MaxKeys><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>` +
		`<Contents><Key>in/a+b%2Bc%20d%C3%BC</Key><LastModified>2026-11-29T17:50:30.000Z</LastModified>` +
		`<ETag>&quot;fba9dede5f27731c9771645a39863328&quot;</ETag><ChecksumAlgorithm>CRC64NVME</ChecksumAlgorithm>` +
		`<ChecksumType>FULL_OBJECT</ChecksumType><Size>434234</Size><StorageClass>STANDARD</StorageClass></Contents>` +
		`<Contents><Key>in/z</Key><LastModified>2026-11-29T17:50:30.123Z</LastModified><ETag>&quot;1-2&quot;</ETag>` +
		`<ChecksumAlgorithm>CRC32</ChecksumAlgorithm><ChecksumAlgorithm>SHA256</ChecksumAlgorithm><Size>0</Size>` +
		`<StorageClass>GLACIER</StorageClass><RestoreStatus><IsRestoreInProgress>false</IsRestoreInProgress>` +
		`<RestoreExpiryDate>2026-12-20T00:00:00.000Z</RestoreExpiryDate></RestoreStatus></Contents></ListBucketResult>`,
	"written by Go": s3Root + `<Name>b</Name><Prefix></Prefix><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>` +
		`<Contents><Key>a&amp;b&lt;&gt;&apos;ü</Key><LastModified>2026-11-29T17:50:30Z</LastModified><ETag>&#34;x&#34;</ETag>` +
		`<Size>1</Size><Owner><ID>me</ID><DisplayName></DisplayName></Owner></Contents></ListBucketResult>`,
	"indented": `<?xml version="1.0" encoding="UTF-8"?>` + "\n<ListBucketResult>\n\t<Prefix/>\n  <IsTruncated>false</IsTruncated>\n" +
		"  <Contents>\n    <Key> k </Key>\n    <Owner>\n      <ID/>\n    </Owner>\n <ETag>&#x22;x&#x22;</ETag></Contents>\n</ListBucketResult>\n",
	"with elements that are new": `<ListBucketResult><IsTruncated>false</IsTruncated><Color>red</Color><Contents><Key>k</Key><Shape>round</Shape><RestoreStatus><IsRestoreInProgress>true</IsRestoreInProgress><RestoreExpiryDate>2026-12-20T00:00:00Z</RestoreExpiryDate></RestoreStatus></Contents></ListBucketResult>`,
	"empty":                      `<ListBucketResult></ListBucketResult>`,
}

// oddPages are left to the SDK, whether they are well-formed or not.
var oddPages = map[string]string{
	"nothing":              ``,
	"another document":     `<html><body>Welcome</body></html>`,
	"an error":             `<Error><Code>SlowDown</Code></Error>`,
	"another encoding":     `<?xml version="1.0" encoding="ISO-8859-1"?><ListBucketResult></ListBucketResult>`,
	"a prefix":             `<s3:ListBucketResult xmlns:s3="x"></s3:ListBucketResult>`,
	"a comment":            `<ListBucketResult><!-- x --></ListBucketResult>`,
	"a section":            `<ListBucketResult><NextContinuationToken><![CDATA[x]]></NextContinuationToken></ListBucketResult>`,
	"an instruction":       `<ListBucketResult><?x y?></ListBucketResult>`,
	"an attribute":         `<ListBucketResult><Contents a="b"></Contents></ListBucketResult>`,
	"a carriage return":    "<ListBucketResult>\r\n</ListBucketResult>",
	"small letters":        `<ListBucketResult><contents><Key>k</Key></contents></ListBucketResult>`,
	"a name in others":     `<ListBucketResult><IsTruncated>false</IsTruncated><ISTRUNCATED>true</ISTRUNCATED></ListBucketResult>`,
	"text in between":      `<ListBucketResult>x</ListBucketResult>`,
	"an element in text":   `<ListBucketResult><Contents><Key>a<b></b></Key></Contents></ListBucketResult>`,
	"tags crossed":         `<ListBucketResult><Contents><Key>a</Contents></Key></ListBucketResult>`,
	"another end":          `<ListBucketResult></ListBucketRESULT>`,
	"an end too many":      `<ListBucketResult></ListBucketResult></ListBucketResult>`,
	"no end":               `<ListBucketResult><IsTruncated>false</IsTruncated>`,
	"an unknown entity":    `<ListBucketResult><Name>&nbsp;</Name></ListBucketResult>`,
	"an open entity":       `<ListBucketResult><Name>&quot</Name></ListBucketResult>`,
	"no character":         `<ListBucketResult><Name>&#xD800;</Name></ListBucketResult>`,
	"a control character":  "<ListBucketResult><Name>\x01</Name></ListBucketResult>",
	"one by its number":    "<ListBucketResult><Name>&#1;</Name></ListBucketResult>",
	"no UTF-8":             "<ListBucketResult><Name>\xff</Name></ListBucketResult>",
	"the end of a section": `<ListBucketResult><Name>]]></Name></ListBucketResult>`,
	"no number":            `<ListBucketResult><Contents><Size>1.5</Size></Contents></ListBucketResult>`,
	"no size":              `<ListBucketResult><Contents><Size/></Contents></ListBucketResult>`,
	"no truth":             `<ListBucketResult><IsTruncated>no</IsTruncated></ListBucketResult>`,
	"no time":              `<ListBucketResult><Contents><LastModified>yesterday</LastModified></Contents></ListBucketResult>`,
}

func TestAPageAsServersWriteItIsReadWithoutTheSDK(t *testing.T) {
	for name, answer := range plainPages {
		t.Run(name, func(t *testing.T) {
			if !readsLikeTheSDK(t, []byte(answer)) {
				t.Error("it is left to the SDK")
			}
		})
	}
}

func TestAnOddPageIsLeftToTheSDK(t *testing.T) {
	for name, answer := range oddPages {
		if read, ok := readPlain([]byte(answer)); ok {
			t.Errorf("%s: read as %+v", name, read)
		}
	}
}

func FuzzPlainPage(f *testing.F) {
	for _, answers := range []map[string]string{plainPages, oddPages} {
		for _, answer := range answers {
			f.Add([]byte(answer))
		}
	}
	f.Fuzz(func(t *testing.T, answer []byte) { readsLikeTheSDK(t, answer) })
}

// readsLikeTheSDK tells whether answer is plain, and fails the test where the
// SDK's decoder reads something else, or an error.
func readsLikeTheSDK(t *testing.T, answer []byte) bool {
	t.Helper()
	read, ok := readPlain(answer)
	if !ok {
		return false
	}
	want, err := decodedBySDK(t, answer)
	if err != nil {
		t.Fatalf("the SDK refuses %q: %v", answer, err)
	}
	if !reflect.DeepEqual(read, want) {
		t.Fatalf("%q is read as\n%s, by the SDK as\n%s", answer, shown(read), shown(want))
	}
	return true
}

func shown(p *rawPage) string { return fmt.Sprintf("%+v truncated %v", *p, aws.ToBool(p.isTruncated)) }

// answering is a server that always answers the same.
type answering []byte

func (a answering) Do(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(a)), Request: r}, nil
}

func clientOf(server s3.HTTPClient) *s3.Client {
	return s3.New(s3.Options{
		Region: "us-east-1", HTTPClient: server, Retryer: aws.NopRetryer{},
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
}

func decodedBySDK(t *testing.T, answer []byte) (*rawPage, error) {
	t.Helper()
	out, err := clientOf(answering(answer)).ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String("files")})
	if err != nil {
		return nil, err
	}
	return readBySDK(out), nil
}

// TestPagesCutAndPastedAreReadAsTheSDKReadsThem puts pages together from pieces
// of others: most are broken, some are plain.
func TestPagesCutAndPastedAreReadAsTheSDKReadsThem(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	pieces := func(pages map[string]string) (cut [][]string) {
		for _, name := range slices.Sorted(maps.Keys(pages)) {
			cut = append(cut, strings.SplitAfter(strings.ReplaceAll(pages[name], "<", "\x00<"), "\x00"))
		}
		return cut
	}
	whole := pieces(plainPages)
	all := slices.Concat(append(whole, pieces(oddPages)...)...)
	plain := 0
	const pages = 10_000
	for range pages {
		answer := slices.Clone(whole[random.IntN(len(whole))])
		for range 1 + random.IntN(3) {
			at := random.IntN(len(answer) + 1)
			end := min(len(answer), at+random.IntN(3))
			with := random.IntN(len(all))
			answer = slices.Replace(answer, at, end, all[with:min(len(all), with+random.IntN(4))]...)
		}
		if readsLikeTheSDK(t, []byte(strings.ReplaceAll(strings.Join(answer, ""), "\x00", ""))) {
			plain++
		}
	}
	if plain < pages/20 {
		t.Errorf("%d of %d pages were plain", plain, pages)
	}
}

// BenchmarkPage is a call for a page of a thousand objects, by the SDK and as
// this package makes it.
func BenchmarkPage(b *testing.B) {
	const object = `<Contents><Key>incoming/2026/11/29/events-%06d.csv.gz</Key><LastModified>2026-11-29T17:50:30.000Z</LastModified>` +
		`<ETag>&quot;%032x&quot;</ETag><ChecksumAlgorithm>CRC64NVME</ChecksumAlgorithm><ChecksumType>FULL_OBJECT</ChecksumType>` +
		`<Size>%d</Size><StorageClass>STANDARD</StorageClass></Contents>`
	var answer strings.Builder
	answer.WriteString(s3Root + "<IsTruncated>false</IsTruncated>")
	for i := range 1000 {
		fmt.Fprintf(&answer, object, i, i*i, i)
	}
	answer.WriteString("</ListBucketResult>")
	client := clientOf(answering(answer.String()))
	in := &s3.ListObjectsV2Input{Bucket: aws.String("files")}
	b.Run("SDK", func(b *testing.B) {
		for b.Loop() {
			out, err := client.ListObjectsV2(b.Context(), in)
			if err != nil || len(out.Contents) != 1000 {
				b.Fatalf("%v", err)
			}
		}
	})
	b.Run("plain", func(b *testing.B) {
		var reader pageReader
		for b.Loop() {
			_, err := client.ListObjectsV2(b.Context(), in, reader.use)
			if err != nil || len(reader.page.entries) != 1000 {
				b.Fatalf("%v", err)
			}
		}
	})
}
