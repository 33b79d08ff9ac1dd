package format

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"kusto-agent/internal/record"
	"kusto-agent/internal/rules"
)

// MinRecord is the least Options.MaxRecord: room for a byte order mark.
const MinRecord = 4

// Options say how the records of an input are read.
type Options struct {
	Format record.Format
	// Validate checks each record against its format. Without it only what
	// framing needs is looked at: a delimited record whose quotes leave its
	// end in doubt, and a MultiJSON record whose syntax does, is rejected all
	// the same, and JSON of which rules withhold something is always checked:
	// rules find members only in what is sound.
	Validate bool
	// MaxRecord is the most bytes of a record, its line end included, as it
	// is in the file. In Avro it is the most bytes of a header and of a block.
	MaxRecord int
	// MaxContent is the most bytes of a record without its line end. MaxRecord is to be 2
	// more then, which a line end has at most: it bounds what is looked at for a record.
	// Messages of several lines, for ParseDocker and ParseCRI, are bounded by MaxRecord
	// alone. Not for Avro. 0: MaxRecord is the only bound.
	MaxContent int
	// MaxHeader is the most bytes of a header by which rules know columns. 0:
	// MaxRecord.
	MaxHeader int
	// MaxBody is the most bytes of a body with its prefix, for formats whose
	// bodies can be longer than the data they are of; a record of MaxRecord
	// bytes is taken whatever it says, but for Avro and with Fields. 0: no
	// limit.
	MaxBody int
	// Fields are added to each record, for JSON and MultiJSON; what they stand
	// for is told with SetStamp. A record that they make longer than MaxBody is
	// rejected as grown. Nil: none.
	Fields *Fields
	// SkipHeader drops the first record of a file that is not blank, for
	// delimited formats. The header must end within the first MaxRecord bytes
	// of the file; if none does, no record is taken for one.
	SkipHeader bool
	// Encoding is that of the file; MaxRecord and MaxBody are bytes of UTF-8.
	// Not for Avro.
	Encoding Encoding
	// Parse makes JSON of lines, for Format JSON. A record that it makes longer
	// than MaxBody is rejected as grown.
	Parse Parse
	// Inner is what messages hold, for ParseDocker and ParseCRI. ParseNone: text.
	Inner Parse
	// OnError says what becomes of a record that is not as Parse says, or Inner,
	// where that is Parse.Parsed.
	OnError OnError
	// Zone is that of times that do not tell theirs, for ParseSyslog, Inner too. Nil: time.Local.
	Zone *time.Location
	// Pattern is for ParseRegex, Inner too.
	Pattern *Pattern
	// Multiline says which lines are one event, for ParseText and ParseRegex. Nil:
	// each is.
	Multiline *Multiline
	// Rules say which records are sent, and what of them, before Fields are added.
	// They were made for the kind that RuleKind tells. A record that they make longer
	// than MaxBody is rejected as grown. Nil: all are, as they are.
	Rules *rules.Set
	// Wary has objects of JSON and MultiJSON that may lie within one which is not sound
	// rejected with it, as Rules do of which members alone tell what is withheld.
	Wary bool
}

// Scanner finds and checks records. It keeps scratch memory, so only one
// goroutine may use it at a time; it is cheap, and each worker has its own.
type Scanner struct {
	opt     Options
	spec    Spec
	sep     []byte  // the delimiter
	json    bool    // the format is JSON
	txt     bool    // the format is TXT
	apart   bool    // records are parsed, or asked for by rules
	checks  bool    // each record is checked
	wary    bool    // see wary.go
	fault   fault   // why the cut at hand is unsound
	borders borders // of the records at hand, see json_quick.go
	rows    rows    // the same, of delimited ones
	runs    bool    // soundRun is tried
	plain   bool    // records are sent as they are in the data
	step    int     // how many bytes it classifies next; 0: none
	margin  int     // how many bytes from a record on it wants to be known
	padded  []byte  // a record with quickRoom behind it
	relaxed []byte  // a record freed of the engine's leniencies, see json_relaxed.go
	head    header  // of the Avro file at hand
	stamp   Stamp   // of the file at hand
	quiet   bool    // see SetQuiet
	ends    bool    // quiet, and the data at hand goes to the end

	// Of text that was decoded.
	window  int    // bytes that are decoded at a time
	text    []byte // at hand
	known   place  // the last one asked for
	raw     []byte // what it was decoded from
	lossy   bool   // something in it was no character
	again   []byte // memory of what is decoded once more
	skipped []byte // memory of the text of a record that is too long

	// Of what is parsed.
	unit      unit    // of the cut at hand
	keys      keys    // of the record at hand
	ids       keys    // of the structured data at hand
	joined    []byte  // lines of the record at hand
	unescaped []byte  // the text of the message at hand
	inner     []byte  // the object that was made of it
	free      []byte  // a name that is looked for in it
	shaped    []byte  // the record at hand, without its fields
	lines     []Piece // of a message that is too long
	misfit    string  // why the last one is not as Parse says
	misfits   int     // objects of the record at hand that tell that it is not as Parse says
	dropped   int     // objects that are not sent for that

	most int // Options.MaxContent, or no bound

	// Of what rules are asked about.
	judge *rules.Judge // nil: there are none
	left  []int        // the reasons that objects of the record at hand are left out for

	// Of what rules change.
	editor   *rules.Editor // nil: nothing
	acted    []int         // rules by which objects of the record at hand were changed
	untaken  bool          // the object at hand holds a line that could not be taken apart
	withheld []byte        // an object in the place of one of those
	closed   bool          // an object of the record at hand could not be taken apart
}

// New returns a scanner for records of o.Format, or an error if options contradict each other.
func New(o Options) (*Scanner, error) {
	spec, ok := Of(o.Format)
	switch {
	case !ok:
		return nil, fmt.Errorf("scan format %q: unknown", o.Format)
	case o.MaxRecord < MinRecord:
		return nil, fmt.Errorf("scan format %s: records of at most %d bytes: at least %d are needed", o.Format, o.MaxRecord, MinRecord)
	case o.Fields != nil && spec.Mapping != "Json":
		return nil, fmt.Errorf("scan format %s: add fields: only JSON has them", o.Format)
	case o.Encoding != UTF8 && spec.Ends == InBlocks:
		return nil, fmt.Errorf("scan format %s: read %v: it is no text", o.Format, o.Encoding)
	case o.Parse != ParseNone && o.Format != record.JSON:
		return nil, fmt.Errorf("scan format %s: parse %v: it makes JSON", o.Format, o.Parse)
	case o.Parse == ParseJSON || o.Inner != ParseNone && (!o.Parse.Container() || !slices.Contains(inners, o.Inner)):
		return nil, fmt.Errorf("scan format %s: parse %v of %v: it cannot hold that", o.Format, o.Inner, o.Parse)
	case (o.Pattern != nil) != (o.taken() == ParseRegex):
		return nil, fmt.Errorf("scan format %s: parse %v: a pattern is for regex, which needs one", o.Format, o.Parse)
	case o.Multiline != nil && o.Parse != ParseText && o.Parse != ParseRegex:
		return nil, fmt.Errorf("scan format %s: parse %v: only text and regex have events of several lines", o.Format, o.Parse)
	case o.OnError != SendRaw && !o.taken().Parsed():
		return nil, fmt.Errorf("scan format %s: parse %v: every line is as it says", o.Format, o.Parse)
	case o.SkipHeader && spec.Delimiter == 0:
		return nil, fmt.Errorf("scan format %s: skip a header: only delimited formats have one", o.Format)
	}
	s := &Scanner{opt: o, spec: spec, most: cmp.Or(o.MaxContent, math.MaxInt), sep: []byte{spec.Delimiter}, json: o.Format == record.JSON, txt: o.Format == record.TXT}
	if o.Rules != nil {
		kind, ok := RuleKind(o.Format, o.Parse)
		if !ok {
			return nil, fmt.Errorf("scan format %s: ask rules: nobody sees its records", o.Format)
		}
		if len(o.Rules.Reasons()) > 0 {
			s.judge = rules.NewJudge(o.Rules, kind, spec.Delimiter)
		}
		if len(o.Rules.Changes()) > 0 {
			s.editor = rules.NewEditor(o.Rules, kind, spec.Delimiter)
		}
	}
	// apart: each record is parsed or shown to rules. wary: with a broken object everything is rejected
	// that may lie within it (see wary.go). checks: each record is checked against its format.
	s.apart = o.Parse != ParseNone || o.Rules != nil
	s.wary = spec.Mapping == "Json" && o.Parse == ParseNone && (o.Wary || o.Rules.Members())
	s.checks = o.Validate || s.wary || s.json && o.Parse == ParseNone && o.Rules.Withholds()
	s.plain = !s.apart && o.Fields == nil && o.Encoding == UTF8
	s.borders.lines = s.spec.Ends == AtValue
	s.runs = s.borders.lines || s.checks && (s.spec.Ends == AtRow || s.json && s.opt.Parse == ParseNone) // MultiJSON is checked to find its ends
	return s, nil
}

// kind is what the next bytes turned out to be.
type kind uint8

const (
	sound kind = iota
	blank
	filler  // between records: filtered, and not counted
	unsound // to be rejected, for s.fault
	open    // ends beyond the data
	endless // open, and longer than a record may be
)

// cut is one step through the data.
type cut struct {
	kind   kind
	ended  bool // by a newline of its own
	flawed bool // sound as far as framing goes, but Validate rejects it for s.fault
	ascii  bool // known to be, so that it is UTF-8 too
	fields int  // of a sound delimited record
	n      int  // bytes, the line end included

	// Of MultiJSON.
	lead int // bytes before the record: its indentation
	cr   int // bytes of a line end that a bare newline must replace

	records int  // in a block of Avro, or messages of a unit
	parts   bool // endless, and SkipParts is for it
}

// size returns how many bytes the record takes in the body: with its line end, or with the
// newline that it gets if it has none.
func (k *cut) size() int {
	if k.ended {
		return k.n
	}
	return k.n + 1
}

// shownBy returns how many bytes of data, which begins with the record of k, are enough to tell
// where the record ends; len(data)+1 if only the end of the file tells. NUL bytes after the
// record may belong to it, unless they are as many as a crash leaves (tear is 4096 of them).
func (k *cut) shownBy(data []byte) int {
	switch {
	case k.ended:
		return k.n
	case bytes.HasPrefix(data[k.n:], tear):
		return k.n + leastTear
	}
	return len(data) + 1
}

// Scan reads records from data, which begins at offset at of its file, into c. last says that
// nothing follows data: a last record without a newline is then whole, and gets one. For this
// newline Scan may write one byte behind data if its capacity has room; otherwise the body
// becomes a copy. limit is the most records to accept, 0 for any number.
//
// Scan accounts for data[:c.Consumed] and may move records within it. It stops before a record
// that is not whole, before one whose number of fields is not that of the records before it, at
// the limit, when c holds record.MaxPieces pieces (ranges of data) or rejected records, and when
// a copied body has grown to copiedRun (256 KiB). The caller takes what c has and calls again for
// the rest. An Avro block with more records than the limit is accepted only as the first. If
// nothing is consumed and c.Long is false, Scan needs more data; see Options.Room for how much is
// always enough.
//
// A byte order mark and a header are looked for only if at is 0. If at is negative, data begins
// with -at bytes of the file that was read before; a record that begins there has offset 0 in its
// fields.
func (s *Scanner) Scan(data []byte, at int64, last bool, limit int, c *Chunk) {
	if s.opt.Encoding != UTF8 {
		s.scanDecoded(data, at, last, limit, c)
		return
	}
	s.ends = s.quiet
	s.scan(data, at, last, limit, c)
}

// scan reads records from UTF-8 text into c; Scan calls it, after decoding if the file has
// another encoding. data begins at the offset at of the file. last says that nothing follows
// data, and limit is the most records to accept, 0 for any number. c.Consumed says how many bytes
// are done with, and c counts what was accepted, rejected, blank or header there. Indexes in c
// count the bytes that the file has from at on, also if the text was decoded.
func (s *Scanner) scan(data []byte, at int64, last bool, limit int, c *Chunk) {
	c.reset()
	if at == 0 && !s.begin(data, last, c) {
		return
	}
	if s.judge != nil {
		s.judge.Begin(data)
	}
	defer s.places(c)
	header := at == 0 && s.opt.SkipHeader
	s.borders.begin(0) // the data is new
	s.rows.next = -1
	var k cut
	for c.Consumed < len(data) && (limit <= 0 || c.Records < limit) {
		if s.runs && !header && !s.soundRun(c, data, at, limit) {
			break
		}
		rest := data[c.Consumed:]
		s.next(&k, rest, last)
		isHeader := header && k.kind == sound && c.Consumed+k.shownBy(rest) <= s.opt.MaxRecord
		if k.kind == sound && s.checks && !isHeader {
			s.validate(&k, rest, last)
		}
		ok := true
		switch {
		case k.kind == open || k.kind == endless:
			s.long(c, rest, k)
			ok = false
		case k.kind == filler:
			if s.spec.Ends != InBlocks { // NUL bytes are counted in text only
				s.passed(c, rest[:k.n])
			}
		case k.kind == blank:
			c.Blank++
		case k.kind == unsound:
			ok = s.reject(c, rest, k)
		case isHeader:
			c.Header++
			if s.opt.Rules.Named() {
				s.setHeader(RecordText(rest[:k.n]))
			}
		default:
			ok = (limit <= 0 || c.Records == 0 || c.Records+k.records <= limit) && s.accept(c, data, at, &k)
		}
		if !ok {
			break
		}
		header = header && k.kind == blank // only blank lines can precede the header, NUL bytes cannot
		c.Consumed += k.n
	}
	c.settle()
	// Blank lines before a header are consumed only with it: the next call has to begin at 0 to
	// look for the header.
	if header && !last && len(data) < s.opt.MaxRecord {
		c.reset()
	}
}

// begin handles what precedes the first record of a file: a byte order mark, or the header of an
// Avro file. It notes in c what it skipped or rejected. It returns false if no record can be read
// after that: more data is needed, or the header is bad.
func (s *Scanner) begin(data []byte, last bool, c *Chunk) bool {
	if s.spec.Ends == InBlocks {
		return s.beginBlocks(data, last, c)
	}
	return dropBOM(data, last, c)
}

// dropBOM skips a byte order mark at the beginning of data. It returns false if more data is
// needed to tell whether there is one.
func dropBOM(data []byte, last bool, c *Chunk) bool {
	const mark = "\xEF\xBB\xBF"
	if len(data) < len(mark) && !last && bytes.HasPrefix([]byte(mark), data) {
		return false
	}
	if bytes.HasPrefix(data, []byte(mark)) {
		c.BOM, c.Consumed = len(mark), len(mark)
	}
	return true
}

// next finds the record at the beginning of data, which is not empty, and describes it in k: its
// kind, its length, and whether it ends with a newline. last says that nothing follows data. k is
// passed by reference because copies of a cut that was just written would slow down the scan of
// short rows.
func (s *Scanner) next(k *cut, data []byte, last bool) {
	switch {
	case s.spec.Ends == AtValue:
		*k = s.nextValue(data, last)
	case s.spec.Ends == InBlocks:
		*k = s.nextBlock(data, last)
	case data[0] == 0:
		*k = cut{kind: filler, n: leadingNULs(data)}
	default:
		s.nextLine(k, data, last)
		if s.opt.Parse != ParseNone {
			s.join(k, data, last)
		}
	}
	if k.kind == sound && k.n > s.most {
		if s.bound(k, data); s.wary && s.json && k.kind == unsound { // further lines may belong to it
			s.joinBroken(k, data, last)
		}
	}
}

// bound makes the cut k unsound, with the reason in s.fault, if its record is longer than
// Options.MaxContent (s.most), its line end not counted. Container messages of several lines are
// bounded by MaxRecord alone. Of a row over several lines only the first line is rejected, as for
// a row whose end is not in sight; the next line is scanned as a row of its own.
func (s *Scanner) bound(k *cut, data []byte) {
	switch {
	case s.opt.Parse.Container() && len(s.unit.parts) > 1, len(withoutEnd(data[:k.n])) <= s.most:
	case s.spec.Ends == AtRow && firstLine(data[:k.n]) < k.n:
		*k = cut{kind: unsound, ended: true, n: firstLine(data[:k.n])}
		s.fault = s.tooLong("over several lines and longer than")
	default:
		k.kind, s.fault = unsound, s.tooLong("longer than")
	}
}

// nextLine finds the line that data begins with, or the row with newlines between quotes, and
// describes it in k. k.kind is sound, blank, unsound (too long, or with bad quotes), open (the
// end is not in data yet) or endless (too long already, and without an end in data). last says
// that nothing follows data.
func (s *Scanner) nextLine(k *cut, data []byte, last bool) {
	*k = cut{n: bytes.IndexByte(data, '\n') + 1}
	k.ended = k.n > 0
	if n := torn(data[:min(cmp.Or(k.n, len(data)), s.opt.MaxRecord)]); n > 0 { // NUL bytes from a crash end the line too
		data, last, k.ended = data[:n], true, false
	}
	if !k.ended {
		switch {
		case last:
			data = s.withoutNULs(data)
			k.n = len(data)
		case len(data) >= s.opt.MaxRecord:
			s.fault = s.tooLong("longer than")
			*k = cut{kind: endless, n: s.opt.MaxRecord}
			return
		default:
			*k = cut{kind: open}
			return
		}
	}
	switch line := data[:k.n]; {
	case k.size() > s.opt.MaxRecord:
		k.kind, s.fault = unsound, s.tooLong("longer than")
		if s.wary { // what follows may belong to the same object
			s.passWarily(k, data, last)
		}
	case s.blank(line):
		k.kind = blank
	case s.spec.Ends == AtRow:
		s.row(k, data, last)
	}
}

// validate checks the content of the record of k, with which data begins, against its format. If
// the check fails, it makes k unsound; s.fault says why. Records that are parsed need no check
// here: their JSON is made by the agent.
func (s *Scanner) validate(k *cut, data []byte, last bool) {
	switch {
	case s.opt.Parse != ParseNone:
	case s.json:
		ok, beyond := s.checkJSON(data, k.n)
		k.flawed, k.ascii = !ok, !beyond
	case k.flawed: // a delimited row with a stray quote: only its first line is rejected
		k.n = firstLine(data[:k.n])
	}
	if k.flawed {
		if k.kind = unsound; s.wary && s.json { // further lines may belong to it
			s.joinBroken(k, data, last)
		}
	}
}

// long notes in c what the caller must know to skip a record that is too long and whose end is
// not in the data: the reason, and how many bytes the scanner has seen of it. rest begins with
// the record, which k describes. For a record that more data may complete it notes nothing.
func (s *Scanner) long(c *Chunk, rest []byte, k cut) {
	if k.kind == endless {
		c.Long, c.Skip, c.Indent = true, s.pos(c.Consumed+k.n)-s.pos(c.Consumed), k.lead
		c.Reason, c.Message = s.fault.reason, s.fault.explain(rest)
	}
	if k.parts {
		c.Parts, c.Stream = true, s.unit.messages[0].stream
	}
}

// reject adds the record at the beginning of rest, which k describes, to the rejected records of
// c, for the reason in s.fault. It keeps a copy of the first MaxRecord bytes. It returns false,
// and adds nothing, if c has record.MaxPieces rejected records already.
func (s *Scanner) reject(c *Chunk, rest []byte, k cut) bool {
	if len(c.Rejected) == record.MaxPieces {
		return false
	}
	rec := rest[:k.n]
	held := len(c.held)
	c.held = append(c.held, rec[:min(k.n, s.opt.MaxRecord)]...)
	c.Rejected = append(c.Rejected, Reject{
		Start: s.pos(c.Consumed), End: s.pos(c.Consumed + k.n),
		Reason:  s.fault.reason,
		Message: s.fault.explain(rest),
		Data:    c.held[held:len(c.held):len(c.held)],
	})
	return true
}

// copiedRun is how long a copied body grows before it is handed over: what was
// copied stays in the cache of a core until it is copied on.
const copiedRun = 256 << 10

// accept appends the record of k, which begins at c.Consumed in data, to the body of c, as
// parsing, rules and fields make it. It returns true also if the record was filtered or rejected;
// false: the record has to wait for the next chunk. data begins at offset at of the file.
func (s *Scanner) accept(c *Chunk, data []byte, at int64, k *cut) bool {
	start, end := c.Consumed+k.lead, c.Consumed+k.n
	if s.apart {
		if s.opt.Parse != ParseNone {
			return s.shape(c, data, at, *k)
		}
		if s.judge != nil && !s.judge.Calm(end) && s.leavesOut(c, data, start, end) {
			return true
		}
		if s.editor != nil {
			if done, ok := s.edit(c, data, at, k); done {
				return ok
			}
		}
	}
	if !s.fits(c, start, k) {
		return false
	}
	if s.spec.Ends == InBlocks {
		c.Group, c.Prefix = s.head.group, s.head.bytes
		c.join(data, start, end)
		c.piece(start, end, k.records)
		c.Records += k.records
		return true
	}
	text, newline := end, !k.ended
	if s.txt || k.cr > 0 {
		text, end, newline = s.content(k, data[start:end], end)
	}
	invalid := !k.ascii && !validUTF8(data[start:end]) || s.lossy && s.replaced(data[start:end], start)
	from, to := s.pos(start), s.pos(end)
	before := len(c.Body)
	switch {
	case s.opt.Fields == nil:
		c.joinLine(data, start, end, text, newline)
	case s.joinChanged(c, data[start:text], nil, newline, at+int64(from)):
	case c.Records > 0:
		return false // too long together with the records before; alone it may fit
	default:
		s.fault = fault{reason: record.Grown, text: "with its fields it is longer than", limit: s.opt.MaxBody}
		return s.reject(c, data[c.Consumed:], *k)
	}
	if newline || c.Lens != nil || s.opt.Fields != nil || to-from != end-start {
		s.length(c, before, to-from)
	}
	s.note(c, k, from, to, invalid)
	return true
}

// content returns what of the record rec of k, which ends at end in the data, is sent: its content
// up to text, and a newline if newline is set. The CR of a CRLF is not sent, of TXT and where a
// newline has to replace it. CRs at the end of a file of TXT, whose LF is missing, are left out of
// the record, which then ends earlier.
func (s *Scanner) content(k *cut, rec []byte, end int) (text, recEnd int, newline bool) {
	cr := k.cr
	switch {
	case !s.txt:
	case bytes.HasSuffix(rec, []byte("\r\n")):
		cr = 2
	default:
		cr = len(rec) - len(bytes.TrimRight(rec, "\r"))
	}
	if text, recEnd = end-cr, end; !k.ended {
		recEnd = text
	}
	return text, recEnd, cr > 0 || !k.ended
}

// note counts in c the record of k, which was appended to the body: it is data[from:to], and
// invalid says that it is not UTF-8.
func (s *Scanner) note(c *Chunk, k *cut, from, to int, invalid bool) {
	if s.opt.Validate {
		c.Group = k.fields
	}
	if invalid {
		c.InvalidUTF8++
	}
	c.piece(from, to, 1)
	c.Records++
}

// fits reports whether the record of k may be appended to the body of c; start is the index of
// its first byte in the data. The chunk must have room for one more range of the file. If records
// are checked, the record needs as many columns as those before it. The body must stay within
// MaxBody, unless this is its first record.
func (s *Scanner) fits(c *Chunk, start int, k *cut) bool {
	// A copied body is handed over at copiedRun bytes, while it is still in the cache of the processor.
	if !c.room(s.pos(start)) || c.Copied && len(c.Body) >= copiedRun {
		return false
	}
	if c.Records == 0 {
		return true
	}
	return (k.fields == c.Group || !s.opt.Validate || s.spec.Ends == InBlocks) &&
		(s.opt.MaxBody <= 0 || len(c.Prefix)+len(c.Body)+k.size() <= s.opt.MaxBody)
}
