// Package record holds the words every room shares: what a route, a file, a
// range and a payload are. It holds values only: no I/O, no goroutine, and no
// import beyond the standard library.
package record

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Format is a data format of the ingest call, in the documented spelling of
// its streamFormat parameter.
type Format string

// The formats the streaming endpoint documents, and TXT, which it takes.
const (
	CSV       Format = "CSV"
	TSV       Format = "TSV"
	SCsv      Format = "SCsv"
	SOHsv     Format = "SOHsv"
	PSV       Format = "PSV"
	TXT       Format = "TXT"
	JSON      Format = "JSON"
	MultiJSON Format = "MultiJSON"
	Avro      Format = "Avro"
)

// Route is where a payload goes and how its body is to be read. It is
// comparable, so that it is both the key of a map and the truth.
type Route struct {
	Cluster  string // URL of the engine, without a trailing slash
	Database string
	Table    string
	Format   Format
	Mapping  string // empty: none
}

// String returns the route as text for logs, without the cluster, such as "db.table (JSON, mapping
// m)".
func (r Route) String() string {
	s := r.Database + "." + r.Table + " (" + string(r.Format)
	if r.Mapping != "" {
		s += ", mapping " + r.Mapping
	}
	return s + ")"
}

// FileID names a file for as long as the agent remembers it. It is fixed when
// the file is first seen and outlives its path.
type FileID uint64

// String is the 16 hex digits that logs, quarantine lines and stamps show.
func (id FileID) String() string { return fmt.Sprintf("%016x", uint64(id)) }

// ParseFileID returns the file id that s has, in the 16 hex digits that FileID.String writes.
func ParseFileID(s string) (FileID, error) {
	v, err := strconv.ParseUint(s, 16, 64)
	if err != nil || len(s) != 16 {
		return 0, fmt.Errorf("file id %q: want 16 hex digits", s)
	}
	return FileID(v), nil
}

// File is what a position is kept by: one input reading one generation of one
// file. A generation ends when the file is truncated or rewritten in place.
type File struct {
	Input      string
	ID         FileID
	Generation uint32
}

func (f File) String() string {
	return fmt.Sprintf("%s/%s/%d", f.Input, f.ID, f.Generation)
}

// Span is the half-open range [Start, End) of byte offsets.
type Span struct{ Start, End int64 }

// Len is the number of bytes in the span.
func (s Span) Len() int64 { return s.End - s.Start }

func (s Span) String() string { return fmt.Sprintf("[%d,%d)", s.Start, s.End) }

// Piece is a range of a file whose bytes are part of a payload's body: whole
// records, nothing else.
type Piece struct {
	File File
	Span
	Records int
}

// Extent is a range of a file that becomes safe when its payload does. It
// holds the pieces and all that needs no sending between them: blank lines,
// headers, records already in quarantine.
type Extent struct {
	File File
	Span
	Mark Mark // of the bytes before End
}

// MarkLen is how many bytes before a position its mark covers, at most.
const MarkLen = 512

// Mark recognises a position by the bytes before it: the xxHash64 of the
// min(MarkLen, position) bytes that end there. Zero means not known.
type Mark uint64

// Head recognises a file by its beginning: the xxHash64 of its first Len
// bytes. A Head with Len 0 is not known and matches nothing.
type Head struct {
	Len int
	Sum uint64
}

// Chunk is a run of whole records of one file, read in one go. Its slices
// belong to the reader: whoever takes a chunk copies what it keeps.
type Chunk struct {
	Route   Route
	Shaping uint64 // as in Payload
	Group   int    // field count, or a hash of Prefix; 0 where neither matters

	Before  []Extent // of the files before, where the first record begins; such a chunk is a payload of its own
	Cover   Extent
	Pieces  []Piece
	Prefix  []byte // comes once before the bodies it has in common; nil: nothing does
	Body    []byte // whole records, each with its line end, or whole blocks of them
	Lens    []byte // as in Payload
	Records int
	ReadAt  time.Time

	// Stamp stands, as text, wherever in Body the id of its payload belongs.
	// It is random, so that nothing else in Body is the same. Zero: nowhere.
	Stamp BatchID
}

// MaxPieces is the most pieces a payload holds; at that number it is sealed,
// so that a journal entry and a split stay small.
const MaxPieces = 4096

// BatchID names a payload in the journal and on the wire.
type BatchID [16]byte

// String returns the id in the usual form of a UUID, in lower case.
func (id BatchID) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[0:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// Payload is the body of one ingest call with all that is known of where its
// bytes came from. Whoever holds it owns Body.
type Payload struct {
	ID       BatchID
	Replaces BatchID // the batch of the same ranges whose body could not be rebuilt; zero: none
	Attempt  int     // of the last request made for it; 0: none yet
	Route    Route

	// Cover is in the order read; ranges of one file do not overlap. The bytes of an
	// extent without a piece of its file come before those of the next piece: its
	// record begins there.
	Cover   []Extent
	Pieces  []Piece // in the order of the body
	Records int

	Body     []byte // as it is posted
	Gzip     bool   // Body is gzip
	RawBytes int    // of the body before gzip
	CRC      uint32 // CRC32C of the body before gzip

	// Lens maps the body back to the files where shaping changed lengths (a
	// CR taken away, a newline or fields added): one unsigned varint per record, the
	// bytes it has in its file, its line end included. A record of no bytes is of
	// the same lines as the next one that has some: the two are never parted. Nil
	// where every record has the same bytes in the body as in the file.
	Lens []byte

	// Shaping is a hash of the settings that turn a file's bytes into a body.
	// Two payloads of the same ranges and shaping have the same body. It has the
	// bit Reshaped where a body does not tell what the bytes of the file were, and the
	// bit Withheld where nobody else may be told.
	Shaping uint64

	ReadAt time.Time // when the oldest of its records was read
}

// Bits of Payload.Shaping.
const (
	Reshaped uint64 = 1 // set by parsing, decoding and rules that change records
	Withheld uint64 = 2 // set by rules that keep something of a record from getting out; only with Reshaped
)

// Inputs calls f with each input that has records in the payload, and how many it has. An input
// whose pieces do not stand together comes more than once.
func (p *Payload) Inputs(f func(input string, records int)) {
	for i := 0; i < len(p.Pieces); {
		in, n := p.Pieces[i].File.Input, 0
		for ; i < len(p.Pieces) && p.Pieces[i].File.Input == in; i++ {
			n += p.Pieces[i].Records
		}
		f(in, n)
	}
}

// Lot is a number of records of one input that end together, and where they were to
// go.
type Lot struct {
	Input   string
	Route   Route
	Records int
	Bytes   int64 // of a payload before gzip; in the file where they were in no payload; 0 where nobody knows any more
}

// Lots calls f with one Lot for each input of the payload: the number of its records and its part
// of RawBytes, by the number of records. The bytes of all lots add up to RawBytes.
func (p *Payload) Lots(f func(Lot)) {
	records, bytes := p.Records, int64(p.RawBytes)
	p.Inputs(func(input string, n int) {
		share := bytes
		if n < records {
			share = bytes / int64(records) * int64(n)
		}
		records, bytes = records-n, bytes-share
		f(Lot{Input: input, Route: p.Route, Records: n, Bytes: share})
	})
}

// Share returns how many bytes before gzip this many records of the payload have on average; 0 if
// the payload has no records.
func (p *Payload) Share(records int) int64 {
	if p.Records == 0 {
		return 0
	}
	return int64(p.RawBytes) * int64(records) / int64(p.Records)
}

// Outcome is how a batch ended.
type Outcome uint8

// The outcomes of a batch. Their numbers are in the journal: never change one.
const (
	Accepted    Outcome = 1 // the service answered 200
	Spooled     Outcome = 2 // durable in the spool
	Quarantined Outcome = 3 // durable in quarantine
	Dropped     Outcome = 4 // given up as the configuration allows, counted
	SourceGone  Outcome = 5 // begun, outcome unknown, and its source is gone: cannot be sent again
	Split       Outcome = 6 // its children carry on
	Replaced    Outcome = 7 // rebuilt with another body under another id
	Removed     Outcome = 8 // a person gave it up
)

var outcomeWords = [...]string{
	Accepted: "accepted", Spooled: "spooled", Quarantined: "quarantined", Dropped: "dropped",
	SourceGone: "unknown, source gone", Split: "split", Replaced: "replaced", Removed: "removed",
}

// String returns in words how a batch ended; for a number that is not known, "outcome" and the
// number.
func (o Outcome) String() string {
	if o == 0 || int(o) >= len(outcomeWords) {
		return "outcome " + strconv.Itoa(int(o))
	}
	return outcomeWords[o]
}

// Reason says why a record is in quarantine: the label of its metric and the
// word in its line.
type Reason string

// The reasons of the contract.
const (
	TooLong   Reason = "too_long"  // longer than max_record_size
	Malformed Reason = "malformed" // the local check refused it
	Refused   Reason = "refused"   // the service refused it
	Grown     Reason = "grown"     // fields or parse made it longer than a payload may be
)

// Rejected is one record that goes to quarantine instead of the service.
type Rejected struct {
	File    File
	Path    string // when the file was first seen
	Route   Route
	Offset  int64
	Length  int64  // in the file, its line end included
	Data    []byte // source bytes; only their head where Truncated, and none where Redacted
	Reason  Reason
	Code    string // the service's error code, where it refused
	Message string
	// Truncated says that Data holds less than Length bytes.
	Truncated bool
	// Redacted says that Data is not what is in the file, since something of that must
	// not get out: it is the record as it was sent, or nothing.
	Redacted bool
	// Header is what Data cannot be read without: of a block of an Avro file that the service
	// refused, the header of the file. Empty for other formats, and for blocks that the
	// agent itself rejected.
	Header []byte
	// Dated is that of the file, see FileInfo. It is what the record's year is found by, also when
	// the file is long gone, or its path is that of another one.
	Dated int64
}

// Withhold removes the bytes of a record for quarantine and says so in its Message. It is for
// records of an input that redacts, if it is not known which of their bytes are secret.
func (x *Rejected) Withhold() {
	x.Data, x.Truncated, x.Redacted = nil, true, true
	if x.Message != "" {
		x.Message += "; "
	}
	x.Message += "its bytes are withheld, since its input redacts"
}

// Lot is the record with its bytes in the file.
func (x *Rejected) Lot() Lot {
	return Lot{Input: x.File.Input, Route: x.Route, Records: 1, Bytes: x.Length}
}

// ErrWhole says that a payload cannot be divided: what it holds is refused or
// accepted as one.
var ErrWhole = errors.New("payload cannot be divided")

// ErrStalled is returned for a write to the state disk that was not done
// within the bound; the write may still happen.
var ErrStalled = errors.New("state disk stalled")

// Why the spool takes no payload.
var (
	ErrFull = errors.New("spool is full")         // max_size or min_free leaves no room
	ErrOff  = errors.New("spool is switched off") // max_size is 0
)

// Why records were dropped. The words are the label values of the metric.
const (
	DropSpoolFull  = "spool_full"  // the spool was full and gives way to newer data
	DropSpoolAge   = "spool_age"   // waited in the spool longer than it may
	DropSourceGone = "source_gone" // outcome unknown, and nothing is left to send again
	DropRemoved    = "removed"     // a person gave it up
)

// FileInfo is what is remembered of a file so that it is known again after a
// restart, under another name, or copied.
type FileInfo struct {
	Path     string // when last seen
	First    string // path when first seen
	Dev      uint64
	Inode    uint64
	Birth    int64  // ns since 1970; 0: the file system does not tell
	Handle   string // kernel file handle, its bytes; empty: there is none
	Size     int64  // when last looked at
	Head     Head
	Encoding string // empty: utf-8
	Done     bool   // gone or rotated, read to its end: nothing more will come
	Old      int64  // >0: its first bytes up to the last record end before here are not wanted, see start_at

	// Real is where Path led through links, if it did: rotation is there, and goes by that
	// name, and the links may lead elsewhere by now.
	Real string

	// Dated is when it was changed last, in ns since 1970, when it was first seen: the
	// date by which a year is found that its lines do not tell. It is kept where the
	// input needs it; 0: it is not known.
	Dated int64

	// Doubted is when the file was first seen, in ns since 1970, if it may be a copy of
	// another file and nothing of it was read for that reason; 0: it is not doubted.
	Doubted int64

	// Lost is the offset up to which its unread bytes were counted as lost; 0: none were.
	Lost int64
	Told bool // that it is gone, and what is lost of it if that is known, was told

	// Seen is when a scan began that has found it at its path, in ns since 1970: what was rotated after it is
	// younger than that. It is one of the last, not the very last; 0: it is not known.
	Seen int64

	// Of a compressed file. Size, like every offset in it, counts what is inside.
	Packed Packed
}

// Paths returns the path of the file when it was last seen and, if links led to it, also
// where they led.
func (i *FileInfo) Paths() []string {
	if i.Real == "" {
		return []string{i.Path}
	}
	return []string{i.Path, i.Real}
}

// Packed recognises a compressed file that was looked through before.
type Packed struct {
	Size  int64 // of the file itself; 0: it is not compressed
	Mtime int64 // ns since 1970
	Cut   bool  // it breaks off, or is damaged: what can be read of it may end in part of a record
}
