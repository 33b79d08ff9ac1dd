package tail

import (
	"io"
	"os"

	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/archive"
	"kusto-agent/tail/internal/fingerprint"
)

// unpacked returns the content of an open file that was compressed when it was last
// seen; size is the length of the content, or unknownSize. The source reads from f,
// which has to stay open. If f is no longer compressed, it is f itself.
func unpacked(f *os.File, st status, size int64) source {
	var b [4]byte
	n, _ := f.ReadAt(b[:], 0)
	how := archive.KindOf(b[:n])
	if how <= archive.Unknown {
		return f // it was replaced: what is there does not fit
	}
	z := &contents{Source: archive.NewSource(how, st.size, size), f: f, file: record.Packed{Size: st.size, Mtime: st.mtime}}
	z.From(f)
	return z
}

// openPackedBeside finds what compressing made of a file, with the bytes of an
// extent; nil: nothing of the kind is there.
func openPackedBeside(info record.FileInfo, x record.Extent) source {
	for _, path := range packedBeside(info) {
		f, st, err := openFile(path)
		if err != nil {
			continue
		}
		z := unpacked(f, st, archive.UnknownSize)
		if h, err := fingerprint.HeadOfLen(z, info.Head.Len); err == nil && h == info.Head && holds(z, x) == nil {
			return z
		}
		z.Close()
	}
	return nil
}

// markAfter reads the mark of the end of an extent. What is compressed is read from
// the start of the extent on, and so at hand afterwards.
func markAfter(f source, x record.Extent) (record.Mark, error) {
	if _, packed := f.(*contents); packed && x.Len() <= mostRecord {
		from := max(x.Start-record.MarkLen, 0)
		b := make([]byte, x.End-from)
		if _, err := fingerprint.ReadFull(f, b, from); err != nil && err != io.EOF {
			return 0, err
		}
	}
	return fingerprint.MarkAt(f, x.End)
}
