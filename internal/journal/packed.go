package journal

import (
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/internal/wire"
)

// packedInfo is a record.FileInfo as it is kept of hundreds of thousands of files: in one
// string. Two that are equal are of equal facts. The empty string is of none.
type packedInfo string

// nothing is how no facts are packed before they are the empty string.
var nothing = string(encodeInfo(&record.FileInfo{}))

// pack returns the facts of a file (path, inode, size and so on) as one string, which takes less
// memory. Equal facts give equal strings; no facts give the empty string.
func pack(i *record.FileInfo) packedInfo {
	b := encodeInfo(i)
	if string(b) == nothing {
		return ""
	}
	return packedInfo(b)
}

// encodeInfo encodes the facts of a file for pack. If both paths in it are the same, it has only one.
func encodeInfo(i *record.FileInfo) []byte {
	same := i.First == i.Path
	c := *i
	if same {
		c.First = ""
	}
	var w wire.Writer
	w.Bool(same)
	writeInfo(&w, &c)
	return w.B
}

// unpack returns the facts of a file that pack has packed; the empty string gives none. The caller owns
// them.
func (p packedInfo) unpack() (i record.FileInfo) {
	if p == "" {
		return i
	}
	r := wire.Reader{B: []byte(p)}
	same := r.Bool()
	readInfo(&r, &i)
	if same {
		i.First = i.Path
	}
	return i
}

// instant is a time in ns since 1970; 0: the zero time.
type instant int64

// instantOf returns a time in nanoseconds since 1970, and 0 for the zero time.
func instantOf(t time.Time) instant {
	if t.IsZero() {
		return 0
	}
	return instant(t.UnixNano())
}

// time returns the instant as a time.Time; 0 is the zero time.
func (i instant) time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(i))
}
