package bench

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
)

// success is what the service answers when it took a body.
const success = `{"Tables":[{"TableName":"Table_0","Columns":[{"ColumnName":"ConsumedRecordsCount","DataType":"Int64"},` +
	`{"ColumnName":"UpdatePolicyStatus","DataType":"String"},{"ColumnName":"UpdatePolicyFailureCode","DataType":"String"},` +
	`{"ColumnName":"UpdatePolicyFailureReason","DataType":"String"}],"Rows":[[0,"Inactive","Unknown",null]]}]}`

// Report is what arrived at a sink since its last reset.
type Report struct {
	Requests   int
	Protocol   string // of the last request; "HTTP/1.1"
	Records    int    // distinct ones
	Duplicates int    // records that came again
	Raw        int64  // bytes before gzip
	Body       int64  // bytes as posted
	Last       time.Time
	Delays     Delays // from when a record says it was written to its arrival, of those that do, the least first
}

// sink takes every body of the ingest call and keeps it as it came. What the
// bodies hold is looked at when a report is asked for, never during a run.
type sink struct {
	mu     sync.Mutex
	arena  [][]byte // memory of bodies, kept over resets so that all runs find it warm
	full   int      // arenas used up
	used   int      // of the next one
	bodies []body
	raw    int64 // bytes before gzip, by what the bodies say of themselves
	last   time.Time
	proto  string // of the last request
}

type body struct {
	data []byte
	gzip bool
	came time.Time
}

const arenaSize = 64 << 20

// address is where a sink listens.
type address struct {
	Plain string // URL of everything
	TLS   string // the same with TLS, HTTP/1.1 or HTTP/2 as the client chooses
	CA    string // PEM of the certificate of TLS
}

// runSink is a process: it prints its address as JSON and serves until its
// standard input is closed.
func runSink() error {
	s := new(sink)
	var far distance
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/rest/ingest/{database}/{table}", far.away(s.ingest))
	mux.HandleFunc("POST /distance", far.set)
	mux.HandleFunc("POST /reset", s.reset)
	mux.HandleFunc("POST /arrived", s.arrived)
	mux.HandleFunc("POST /report", s.report)
	// Both end with the process, which nobody outlives.
	plain, secure := httptest.NewServer(mux), httptest.NewUnstartedServer(mux)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	at := address{plain.URL, secure.URL, string(ca)}
	if err := json.NewEncoder(os.Stdout).Encode(at); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// take returns room for n bytes.
func (s *sink) take(n int) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used+n > arenaSize {
		s.full, s.used = s.full+1, 0
	}
	if s.full == len(s.arena) {
		s.arena = append(s.arena, make([]byte, arenaSize))
	}
	b := s.arena[s.full][s.used : s.used+n : s.used+n]
	s.used += n
	return b
}

func (s *sink) ingest(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength < 0 || r.ContentLength > arenaSize {
		http.Error(w, "a body needs a length", http.StatusLengthRequired)
		return
	}
	b := body{data: s.take(int(r.ContentLength)), gzip: r.Header.Get("Content-Encoding") == "gzip"}
	if _, err := io.ReadFull(r.Body, b.data); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	b.came = time.Now()
	s.bodies, s.last, s.proto = append(s.bodies, b), b.came, r.Proto
	s.raw += b.size()
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, success)
}

func (s *sink) reset(http.ResponseWriter, *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies, s.full, s.used, s.raw, s.last, s.proto = nil, 0, 0, 0, time.Time{}, ""
}

// arrived tells how many bytes before gzip are here.
func (s *sink) arrived(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	json.NewEncoder(w).Encode(s.raw)
}

func (s *sink) report(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rep := Report{Requests: len(s.bodies), Protocol: s.proto, Last: s.last}
	var seen []bool // by number of record
	for _, b := range s.bodies {
		rep.Body += int64(len(b.data))
		if err := b.count(&rep, &seen); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	slices.Sort(rep.Delays)
	json.NewEncoder(w).Encode(rep)
}

// size is the body's length before gzip, which a gzip member ends with.
func (b body) size() int64 {
	if b.gzip && len(b.data) > 4 {
		return int64(binary.LittleEndian.Uint32(b.data[len(b.data)-4:]))
	}
	return int64(len(b.data))
}

// count adds the records of a body to rep.
func (b body) count(rep *Report, seen *[]bool) error {
	var r io.Reader = bytes.NewReader(b.data)
	if b.gzip {
		zr, err := gzip.NewReader(r)
		if err != nil {
			return err
		}
		r = zr
	}
	lines := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := lines.ReadSlice('\n')
		if err == io.EOF && len(line) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read record %d of a body: %w", rep.Records, err)
		}
		rep.Raw += int64(len(line))
		seq, err := seqOf(line)
		if err != nil {
			return err
		}
		for seq >= len(*seen) {
			*seen = append(*seen, make([]bool, 1<<20)...)
		}
		if (*seen)[seq] {
			rep.Duplicates++
		} else {
			(*seen)[seq] = true
			rep.Records++
		}
		if at := writtenAt(line); at > 0 {
			rep.Delays = append(rep.Delays, b.came.Sub(time.Unix(0, at)))
		}
	}
}

// writtenAt is when a record says it was written, ns; 0 if it does not say.
func writtenAt(line []byte) int64 {
	_, rest, found := bytes.Cut(line[:min(len(line), 60)], []byte(`,"at":`))
	if !found {
		return 0
	}
	digits, _, _ := bytes.Cut(rest, []byte{','})
	at, _ := strconv.ParseInt(string(digits), 10, 64)
	return at
}

func seqOf(line []byte) (int, error) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"seq":`))
	digits, _, _ := bytes.Cut(rest, []byte{','})
	seq, err := strconv.Atoi(string(digits))
	if !ok || err != nil || seq < 0 {
		return 0, fmt.Errorf("record %.40q was never written", line)
	}
	return seq, nil
}
