package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Shape is how the input lies in files.
type Shape struct {
	Name   string // for tables; "one file"
	Files  int
	Size   int64 // bytes of each file, at most: it ends with a whole record
	Routes int   // tables the files are for, by turns, each of an input and a folder of its own; 0: one
	Traced bool  // of each hundred records one is of level trace
}

// Total is the size of all files.
func (s Shape) Total() int64 { return int64(s.Files) * s.Size }

// Input is what Shape.Make wrote.
type Input struct {
	Dir     string
	Routes  []string // a pattern for each
	Paths   []string
	Records int
	Bytes   int64
	Levels  map[string]Share // of the records

	Sent Share // that a sink must hold in the end; bytes of 0: however many
}

// Share is a part of an input.
type Share struct {
	Records int
	Bytes   int64
}

// Without is the input for an agent that does not send the records of some levels.
func (in *Input) Without(levels ...string) *Input {
	part := *in
	for _, level := range levels {
		part.Sent.Records -= in.Levels[level].Records
		part.Sent.Bytes -= in.Levels[level].Bytes
	}
	return &part
}

// Changed is the input for an agent that changes records.
func (in *Input) Changed() *Input {
	part := *in
	part.Sent.Bytes = 0
	return &part
}

// Make writes the files of a shape into a folder of its own below dir. The
// same shape is always the same bytes.
func (s Shape) Make(dir string) (*Input, error) {
	routes := max(s.Routes, 1)
	in := &Input{Dir: filepath.Join(dir, fmt.Sprintf("input-%dx%d-%d-%t", s.Files, s.Size, routes, s.Traced))}
	folders := make([]string, routes)
	for i := range folders {
		folders[i] = filepath.Join(in.Dir, fmt.Sprint(i))
		if err := os.MkdirAll(folders[i], 0o755); err != nil {
			return nil, err
		}
		in.Routes = append(in.Routes, filepath.Join(folders[i], "*.json"))
	}
	lines := NewLines()
	lines.traced, lines.levels = s.Traced, make(map[string]Share)
	for i := range s.Files {
		path := filepath.Join(folders[i%routes], fmt.Sprintf("%04d.json", i))
		in.Paths = append(in.Paths, path)
		n, err := writeFile(path, lines, s.Size)
		if err != nil {
			return nil, err
		}
		in.Bytes += n
	}
	in.Records, in.Levels = lines.Count(), lines.levels
	in.Sent = Share{in.Records, in.Bytes}
	return in, nil
}

// warm reads everything once, so that nobody's turn pays for the disk.
func (in *Input) warm() error {
	_, err := io.Copy(io.Discard, &joined{paths: in.Paths})
	return err
}

func writeFile(path string, lines *Lines, size int64) (n int64, err error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	for n+maxLine <= size {
		line := lines.Next()
		n += int64(len(line))
		if _, err := w.Write(line); err != nil {
			return n, err
		}
	}
	if err := w.Flush(); err != nil {
		return n, err
	}
	return n, f.Close()
}

// Lines makes one log record after the other, 337 bytes on average, each with
// a number of its own in front: `{"seq":0,…}`. Two of them are alike.
type Lines struct {
	rng   *rand.Rand
	seq   int
	now   time.Time
	line  []byte
	timed bool // each says when it was made, as `"at"`

	traced bool // of each hundred one is of level trace
	levels map[string]Share

	echo  int      // after so many bytes the lines come again, with other numbers; 0: never
	rests [][]byte // of the lines to come again, behind the number
	kept  int      // bytes of them
}

// echoSize is far more than gzip looks back over. To make lines anew takes longer than to
// send them.
const echoSize = 128 << 20

// maxLine is longer than any line.
const maxLine = 512

// NewLines starts with number 0.
func NewLines() *Lines {
	return &Lines{rng: rand.New(rand.NewPCG(7, 11)), now: time.Date(2026, 3, 1, 6, 0, 0, 0, time.UTC)}
}

// Count is how many lines were made.
func (l *Lines) Count() int { return l.seq }

var (
	levels   = []string{"info", "info", "info", "info", "info", "info", "debug", "debug", "warn", "error"}
	services = []string{"checkout", "catalog", "search", "payments", "identity", "shipping"}
	methods  = []string{"GET", "GET", "GET", "POST", "PUT", "DELETE"}
	paths    = []string{"/api/v1/orders", "/api/v1/carts", "/api/v2/items", "/api/v2/search", "/login", "/static/app.js"}
	messages = []string{
		"request served", "cache miss, asking the primary", "retrying after a deadlock in the database",
		"session \"renewed\"", "slow query: 3 joins, no index on customer_id", "rate limit close for this tenant",
	}
	statuses = []int{200, 200, 200, 200, 200, 201, 204, 304, 404, 500}
)

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// Next returns a line with its newline. It is valid until the next call.
func (l *Lines) Next() []byte {
	if l.kept > 0 && l.kept >= l.echo {
		b := strconv.AppendInt(append(l.line[:0], `{"seq":`...), int64(l.seq), 10)
		l.line = append(b, l.rests[l.seq%len(l.rests)]...)
		l.seq++
		return l.line
	}
	r := l.rng
	l.now = l.now.Add(time.Duration(r.IntN(2_000_000)))
	b := append(l.line[:0], `{"seq":`...)
	b = strconv.AppendInt(b, int64(l.seq), 10)
	numbered := len(b)
	if l.timed {
		b = append(b, `,"at":`...)
		b = strconv.AppendInt(b, time.Now().UnixNano(), 10)
	}
	b = append(b, `,"time":"`...)
	b = l.now.AppendFormat(b, "2006-01-02T15:04:05.000000Z")
	level := pick(r, levels)
	if l.traced && l.seq%100 == 50 {
		level = "trace"
	}
	b = fmt.Appendf(b, `","level":%q,"service":%q,"host":"web-%02d"`, level, pick(r, services), r.IntN(40))
	b = fmt.Appendf(b, `,"trace":"%016x%016x","span":"%016x"`, r.Uint64(), r.Uint64(), r.Uint64())
	b = fmt.Appendf(b, `,"method":%q,"path":"%s/%d"`, pick(r, methods), pick(r, paths), r.IntN(1_000_000))
	b = fmt.Appendf(b, `,"status":%d,"ms":%.3f,"bytes":%d`, pick(r, statuses), r.ExpFloat64()*20, r.IntN(50_000))
	b = fmt.Appendf(b, `,"client":"10.%d.%d.%d","user":"u-%06d"`, r.IntN(40), r.IntN(256), r.IntN(256), r.IntN(200_000))
	b = fmt.Appendf(b, `,"msg":%q}`, pick(r, messages))
	l.line = append(b, '\n')
	if l.levels != nil {
		share := l.levels[level]
		l.levels[level] = Share{share.Records + 1, share.Bytes + int64(len(l.line))}
	}
	if l.echo > 0 {
		l.rests, l.kept = append(l.rests, bytes.Clone(l.line[numbered:])), l.kept+len(l.line)
	}
	l.seq++
	return l.line
}

// joined reads one file after the other.
type joined struct {
	paths []string
	f     *os.File
}

func (j *joined) Read(p []byte) (int, error) {
	for {
		if j.f == nil {
			if len(j.paths) == 0 {
				return 0, io.EOF
			}
			f, err := os.Open(j.paths[0])
			if err != nil {
				return 0, err
			}
			j.f, j.paths = f, j.paths[1:]
		}
		n, err := j.f.Read(p)
		if n > 0 || err != io.EOF {
			return n, err
		}
		j.f.Close()
		j.f = nil
	}
}
