package emulator

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strings"
	"sync"
)

func isGzip(h http.Header) bool { return strings.EqualFold(h.Get("Content-Encoding"), "gzip") }

// readBody reads the request's body as it was sent and records its length and checksums in c.rec.
// Content-Length only sizes the first allocation. It returns a refusal for a body above MaxBody, the
// value answered when a fault has already answered the request, and aborts the connection (by a panic)
// when the body cannot be read to its end.
func (c *call) readBody() ([]byte, *refusal) {
	var buf bytes.Buffer
	if c.s.faults.has(MidBody) {
		half := max(c.r.ContentLength/2, 1)
		io.CopyN(&buf, c.in, min(half, c.s.opt.MaxBody)) // ReadFrom below returns an error again
		c.measure(buf.Bytes())
		if c.interrupted(MidBody, nil) {
			return nil, answered
		}
	}
	limit := c.s.opt.MaxBody
	if hint := min(c.r.ContentLength, limit); hint > 0 {
		buf.Grow(int(min(hint, 1<<20)) + bytes.MinRead)
	}
	_, err := buf.ReadFrom(io.LimitReader(c.in, limit+1-int64(buf.Len())))
	c.measure(buf.Bytes())
	if err != nil {
		c.abort() // the client broke off, or its framing is broken
	}
	if int64(buf.Len()) > limit {
		return nil, c.s.tooLarge("request body", limit)
	}
	c.rec.Whole = true
	c.rec.RawSum = rawSum(buf.Bytes(), isGzip(c.r.Header))
	return buf.Bytes(), nil
}

// measure records the length and the SHA-256 of the body as it was sent.
func (c *call) measure(body []byte) {
	sum := sha256.Sum256(body)
	c.rec.BodyHash, c.rec.BodyLen = hex.EncodeToString(sum[:]), int64(len(body))
}

// rawSum returns, in hex and little-endian, the CRC-32 and the length of the uncompressed data. For
// gzip both are the last 8 bytes of the body, which gunzip verifies later.
func rawSum(body []byte, zipped bool) string {
	if zipped {
		return hex.EncodeToString(body[max(0, len(body)-8):])
	}
	sum := binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(body))
	return hex.EncodeToString(binary.LittleEndian.AppendUint32(sum, uint32(len(body))))
}

// scratch recycles the buffers bodies are decoded into; each is used by one
// request at a time.
var scratch = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// decode returns the body with its Content-Encoding (gzip, or none) removed, and records the decoded
// length. raw is valid until the caller calls release, which is never nil; bad is non-nil for an
// unknown encoding, invalid gzip, or a body above MaxDecoded.
func (c *call) decode(body []byte) (raw []byte, release func(), bad *refusal) {
	release = func() {}
	limit := c.s.opt.MaxDecoded
	switch enc := strings.ToLower(c.r.Header.Get("Content-Encoding")); enc {
	case "", "identity":
		raw = body
	case "gzip":
		buf := scratch.Get().(*bytes.Buffer)
		release = func() { buf.Reset(); scratch.Put(buf) }
		if err := gunzip(buf, body, limit); err != nil {
			return nil, release, badStream(c.rec.Database, c.rec.Table, "BadRequest_InvalidBlob",
				"The input stream is not valid gzip: "+err.Error())
		}
		raw = buf.Bytes()
	default:
		return nil, release, badRequest("BadRequest", "Content-Encoding '%s' is not supported.", enc)
	}
	c.rec.RawLen = int64(len(raw))
	if c.rec.RawLen > limit {
		return nil, release, c.s.tooLarge("decoded request body", limit)
	}
	return raw, release, nil
}

var unzippers = sync.Pool{New: func() any { return new(gzip.Reader) }}

// gunzip appends the uncompressed content of src to dst. src must consist of whole gzip members. It
// stops one byte above limit, so that a small body cannot grow without bound; the caller has to
// compare the length with limit.
func gunzip(dst *bytes.Buffer, src []byte, limit int64) error {
	zr := unzippers.Get().(*gzip.Reader)
	defer unzippers.Put(zr)
	if err := zr.Reset(bytes.NewReader(src)); err != nil {
		return unexpected(err)
	}
	if _, err := dst.ReadFrom(io.LimitReader(zr, limit+1)); err != nil {
		return unexpected(err)
	}
	return nil
}

// unexpected wraps an error of gunzip. EOF becomes ErrUnexpectedEOF, because a gzip stream that ends
// before its header is an error too.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("gunzip body: %w", err)
}
