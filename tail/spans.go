package tail

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
	"kusto-agent/tail/internal/archive"
	"kusto-agent/tail/internal/finder"
	"kusto-agent/tail/internal/fingerprint"
	"kusto-agent/tail/internal/identity"
)

// ErrSourceGone says that a file no longer holds the bytes a batch was made
// of, or cannot be found.
var ErrSourceGone = errors.New("source is gone")

// ErrReshaped says that an input sends its files elsewhere, or in another shape, than
// when a batch was made of them.
var ErrReshaped = errors.New("input has other settings now")

// ErrNotConfigured says that no input has the name of the one that read a batch.
var ErrNotConfigured = errors.New("its input is not configured")

// ReadSpans builds the body of a payload again from the ranges in its pieces: the same
// bytes, if the files are the same. It sets p.Lens. It fails with ErrSourceGone if the
// bytes are gone, with ErrReshaped if the route or the shaping of the input has changed
// (see ReadAnew), with ErrNotConfigured if there is no such input, and with the error of
// the disk if the files cannot be read now. After an error p is unchanged.
func (t *Tailer) ReadSpans(p *record.Payload) (body []byte, err error) {
	was, pieces := p.Records, p.Pieces
	p.Pieces = slices.Clone(pieces)
	defer func() {
		if err != nil {
			p.Records, p.Pieces = was, pieces
		}
	}()
	sent, _ := unsentBehind(p)
	files, err := t.openSources(sent)
	defer files.close()
	if err != nil {
		return nil, err
	}
	again := rereader{t: t, p: p, body: make([]byte, 0, p.RawBytes), scanners: make(map[string]*format.Scanner)}
	p.Records = 0
	for i := range p.Pieces {
		f := files[p.Pieces[i].File]
		if f == nil {
			return nil, fmt.Errorf("%w: %v has no cover", ErrSourceGone, p.Pieces[i].File)
		}
		before, err := readBefore(p, i, files)
		if err == nil {
			err = again.read(f, &p.Pieces[i], before)
		}
		if err != nil {
			return nil, fmt.Errorf("read %v %v: %w", p.Pieces[i].File, p.Pieces[i].Span, err)
		}
	}
	if p.Records == 0 {
		return nil, fmt.Errorf("%w: no record is there", ErrSourceGone)
	}
	if p.Lens = nil; again.shaped {
		p.Lens = again.lens
	}
	return again.body, nil
}

// Divide divides the ranges of a payload that ReadSpans cannot build as a whole: left has those
// that can be read, also with other settings than before, and gone those whose source is gone.
// Ranges without pieces stay with the next range that has pieces, whose first record begins in
// them; those behind all pieces need no source and are in left. The error is any other error of
// ReadSpans; left and gone are then not complete.
func (t *Tailer) Divide(p *record.Payload) (left, gone record.Payload, err error) {
	left, gone = *p, *p
	for _, part := range []*record.Payload{&left, &gone} {
		part.Cover, part.Pieces, part.Records = nil, nil, 0
	}
	sent, rest := unsentBehind(p)
	var cover []record.Extent // ranges without pieces, and the range that follows them
	for _, x := range sent {
		cover = append(cover, x)
		of := *p
		of.Cover, of.Pieces = cover, nil
		for _, piece := range p.Pieces {
			if isIn(x, piece) {
				of.Pieces = append(of.Pieces, piece)
			}
		}
		if len(of.Pieces) == 0 {
			continue
		}
		to := &left
		if _, err := t.ReadSpans(&of); errors.Is(err, ErrSourceGone) {
			to = &gone
		} else if err != nil && !errors.Is(err, ErrReshaped) {
			return left, gone, err
		}
		to.Cover, to.Pieces = append(to.Cover, cover...), append(to.Pieces, of.Pieces...)
		for _, piece := range of.Pieces {
			to.Records += piece.Records
		}
		cover = nil
	}
	left.Cover = append(left.Cover, rest...)
	return left, gone, nil
}

// unsentBehind divides the cover of a payload after its last range that has pieces. The ranges in
// rest hold no byte that was sent: a split leaves such a range if the records behind it are in the
// other half. Their sources are not needed. A range without pieces in sent has the beginning of
// the record that goes on in the range after it.
func unsentBehind(p *record.Payload) (sent, rest []record.Extent) {
	n := len(p.Cover)
	for n > 0 && !slices.ContainsFunc(p.Pieces, func(piece record.Piece) bool { return isIn(p.Cover[n-1], piece) }) {
		n--
	}
	return p.Cover[:n], p.Cover[n:]
}

// isIn reports whether a piece lies in the range x of its file.
func isIn(x record.Extent, piece record.Piece) bool {
	return piece.File == x.File && piece.Start >= x.Start && piece.End <= x.End
}

// rereader makes a body again, piece by piece.
type rereader struct {
	t        *Tailer
	p        *record.Payload
	scanners map[string]*format.Scanner // by input

	prefix []byte
	body   []byte
	lens   []byte
	shaped bool // a record has another length than in its file
}

// mostRecord is more than any record, block or header of a payload can have.
const mostRecord = 16 << 20

// scanner returns the scanner of the input of a piece, set up for its file f. It validates nothing,
// since the first read did. The error is ErrReshaped, or one of rememberedOf.
func (a *rereader) scanner(f io.ReaderAt, piece *record.Piece) (*format.Scanner, error) {
	of, err := a.t.rememberedOf(piece.File)
	if err != nil {
		return nil, err
	}
	in := of.in
	if !in.IsShaped(a.p) {
		return nil, fmt.Errorf("%w: %s", ErrReshaped, in.Name)
	}
	scan := a.scanners[in.Name]
	if scan == nil {
		o := in.Options()
		o.Validate, o.SkipHeader, o.MaxBody, o.MaxContent = false, false, 0, 0
		if !o.Joins() { // records of several lines end at MaxRecord, as in the first read
			o.MaxRecord = mostRecord
		}
		if scan, err = format.New(o); err != nil {
			return nil, err
		}
		a.scanners[in.Name] = scan
	}
	return scan, in.Prepare(scan, f, piece.File, &of.info, a.p.ID)
}

// readBefore returns the beginning of the first record of a piece, by its index in p, if it lies at
// the end of earlier files. The error is ErrSourceGone if a file is too short, or one of reading.
func readBefore(p *record.Payload, piece int, files sources) (all []byte, err error) {
	for _, x := range extentsBefore(p, p.Pieces[piece].File, p.Pieces[piece].Start) {
		data := make([]byte, x.Len())
		if _, err := fingerprint.ReadFull(files[x.File], data, x.Start); err != nil {
			return nil, goneIf(err, io.EOF, io.ErrUnexpectedEOF)
		}
		all = append(all, data...)
	}
	return all, nil
}

// extentsBefore returns the ranges of earlier files in which the record begins that goes on at the
// start (at is 0) of the file f. They come just before it in p.Cover, and have no pieces.
func extentsBefore(p *record.Payload, f record.File, at int64) []record.Extent {
	i := slices.IndexFunc(p.Cover, func(x record.Extent) bool { return x.File == f && x.Start == at })
	first := max(i, 0)
	for first > 0 && at == 0 && !slices.ContainsFunc(p.Pieces, func(o record.Piece) bool { return o.File == p.Cover[first-1].File }) {
		first--
	}
	return p.Cover[first:max(i, 0)]
}

// read adds the records of a piece to the body. before is the beginning of the first if that lies
// in earlier files. The error is ErrSourceGone if the bytes are no whole records any more or their
// header is another one.
func (a *rereader) read(f io.ReaderAt, piece *record.Piece, before []byte) error {
	scan, err := a.scanner(f, piece)
	if err != nil {
		return err
	}
	data := append(make([]byte, 0, len(before)+int(piece.Len())+1), before...)
	data = data[:len(before)+int(piece.Len())]
	if _, err := fingerprint.ReadFull(f, data[len(before):], piece.Start); err != nil {
		return goneIf(err, io.EOF, io.ErrUnexpectedEOF)
	}
	piece.Records = 0
	var c format.Chunk
	for at := 0; at < len(data); at += c.Consumed {
		scan.Scan(data[at:], piece.Start+int64(at-len(before)), true, 0, &c)
		switch {
		case c.Consumed == 0:
			return fmt.Errorf("%w: no whole record is there", ErrSourceGone)
		case c.Records == 0: // only bytes without records, such as blank lines: the file was rewritten
			continue
		case len(a.body) == 0:
			a.prefix = bytes.Clone(c.Prefix)
			a.body = append(a.body, c.Prefix...)
		case !bytes.Equal(a.prefix, c.Prefix):
			return fmt.Errorf("%w: its header has changed", ErrSourceGone)
		}
		a.body = append(a.body, c.Body...)
		if at < len(before) {
			c.Lens = unitLens(c.Records, int64(max(at+c.Consumed-len(before), 0)))
		}
		a.lens, a.shaped = append(a.lens, lengths(scan, &c)...), a.shaped || c.Lens != nil
		piece.Records += c.Records
		a.p.Records += c.Records
	}
	return nil
}

// unitLens returns the lengths, encoded as in record.Payload, of several records that were made of the
// same n bytes: all but the last have the length 0, and the last has n.
func unitLens(records int, n int64) []byte {
	return binary.AppendUvarint(make([]byte, records-1, records+binary.MaxVarintLen64), uint64(n))
}

// lengths returns the lengths that the records of a chunk have in their file, encoded as
// in record.Payload.
func lengths(scan *format.Scanner, c *format.Chunk) []byte {
	if c.Lens != nil {
		return c.Lens
	}
	var lens []byte
	for body := c.Body; len(body) > 0; {
		n := scan.Split(body, 1)
		lens = binary.AppendUvarint(lens, uint64(n))
		body = body[n:]
	}
	return lens
}

// sources are the open files of a payload.
type sources map[record.File]source

func (s sources) close() {
	for _, f := range s {
		f.Close()
	}
}

// openSources opens the files of ranges, as openSource does. The caller closes the files, also after
// an error.
func (t *Tailer) openSources(all []record.Extent) (sources, error) {
	files := make(sources)
	for _, x := range all {
		if err := t.openSource(files, x); err != nil {
			return files, err
		}
	}
	return files, nil
}

// openSource opens the file of the range x, unless it is in files, stores it there, and checks that
// the bytes of x are in it. It tries the file itself, the descriptor of its reader, and a
// compressed copy beside it. The error is ErrSourceGone if none has the bytes; a file that exists
// but cannot be read now does not count as gone. The caller closes the files.
func (t *Tailer) openSource(files sources, x record.Extent) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read %v %v: %w", x.File, x.Span, err)
		}
	}()
	if f := files[x.File]; f != nil {
		return holds(f, x)
	}
	of, err := t.rememberedOf(x.File)
	if err != nil {
		return err
	}
	var f source
	if of.unnamed {
		f, err = t.findUnnamed(of.in, x)
	} else {
		f, err = openKnown(of.in, of.info, x, of.copies)
	}
	if errors.Is(err, ErrSourceGone) && of.info.Packed.Size == 0 {
		if held := t.held(x); held != nil {
			f, err = held, nil
		}
	}
	if errors.Is(err, ErrSourceGone) && x.Mark != 0 {
		if z := openPackedBeside(of.info, x); z != nil {
			f, err = z, nil
		}
	}
	if err == nil {
		files[x.File] = f
	}
	return err
}

// held returns the file of an extent by the descriptor of its reader: if the file was
// deleted there is no other way. Nil: no reader has it, or its bytes have changed.
func (t *Tailer) held(x record.Extent) *os.File {
	t.mu.Lock()
	var f *os.File
	if r := t.readerOf(x.File); r != nil && r.f != nil && r.z == nil {
		f = secondOf(r.f)
	}
	t.mu.Unlock()
	if f != nil && holds(f, x) != nil {
		f.Close()
		return nil
	}
	return f
}

// secondOf duplicates the descriptor of an open file; nil: that failed.
func secondOf(f *os.File) (dup *os.File) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil
	}
	_ = raw.Control(func(fd uintptr) {
		if n, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			dup = os.NewFile(uintptr(n), f.Name())
		}
	})
	return dup
}

// openKnown opens the file of the range x, whose facts are info. With copies, another file with its
// bytes will do. The errors are those of openSource.
func openKnown(in *input, info record.FileInfo, x record.Extent, copies bool) (source, error) {
	if info.Packed.Size == 0 {
		f, err := findSource(in, info, x, copies)
		if err != nil {
			return nil, err
		}
		return f, nil
	}
	path, ok := in.folders.findNode(info)
	if !ok {
		if err := finder.Shut(info.Paths()); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: file was moved or deleted", ErrSourceGone)
	}
	file, st, err := openFile(path)
	if err != nil {
		return nil, goneIf(err, fs.ErrNotExist)
	}
	f := unpacked(file, st, info.Size)
	if err := holds(f, x); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// holds returns nil if the file has the bytes of the range x, by the mark at its end (a hash of the
// last bytes). The error is ErrSourceGone if it has not, or one of reading. Of a compressed file it
// reads all of x.
func holds(f source, x record.Extent) error {
	m, err := markAfter(f, x)
	if err != nil {
		return goneIf(err, io.EOF, io.ErrUnexpectedEOF, archive.ErrChanged)
	}
	if x.Mark != 0 && m != x.Mark {
		return fmt.Errorf("%w: its content has changed", ErrSourceGone)
	}
	return nil
}

// goneIf wraps err as ErrSourceGone if it is one of ends.
func goneIf(err error, ends ...error) error {
	for _, end := range ends {
		if errors.Is(err, end) {
			return fmt.Errorf("%w: %w", ErrSourceGone, err)
		}
	}
	return err
}

// remembered is a file that is known, and the input it is of.
type remembered struct {
	in     *input
	info   record.FileInfo
	former bool // the input is no longer configured
	copies bool // so much was read that a copy is taken for what it is; of less, it is read from its start

	unnamed bool // its file is known by its id alone, see claim
}

// rememberedOf returns what is remembered of the file f and of its input. The error is
// ErrNotConfigured if no input, also no removed one, has the name, and ErrSourceGone if nothing is
// known of the file.
func (t *Tailer) rememberedOf(f record.File) (remembered, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	named := false
	for in := range t.everyInput {
		if k := in.known.Get(f); k != nil {
			now, there := t.inputOf(in.Name)
			return remembered{in, k.info.Info(), now != in || !there, k.candidate(t.scans.no).end() >= identity.Enough, k.isUnnamed()}, nil
		}
		named = named || in.Name == f.Input
	}
	if !named {
		return remembered{}, fmt.Errorf("%w: %s", ErrNotConfigured, f.Input)
	}
	return remembered{}, fmt.Errorf("%w: nothing is remembered of the file", ErrSourceGone)
}

// Shaped returns nil if the inputs of a payload have the same route and shaping as when it
// was made, ErrReshaped if one has changed, and ErrNotConfigured if one is missing. It
// does not look at files.
func (t *Tailer) Shaped(p *record.Payload) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var other error
	for _, x := range p.Cover {
		in, there := t.inputOf(x.File.Input)
		switch {
		case in == nil, !there && !in.IsShaped(p):
			return fmt.Errorf("%w: %s", ErrNotConfigured, x.File.Input)
		case !in.IsShaped(p):
			other = fmt.Errorf("%w: %s", ErrReshaped, in.Name)
		}
	}
	return other
}

// inputOf returns the input of this name, and whether it is still configured (there). nil: there
// was none in this run. The caller holds mu.
func (t *Tailer) inputOf(name string) (in *input, there bool) {
	for _, in := range t.inputs {
		if in.Name == name {
			return in, true
		}
	}
	return t.former[name], false
}
