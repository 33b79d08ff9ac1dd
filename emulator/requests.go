package emulator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"sync"
	"time"
)

// Request is one ingest request as it was seen, answered or not.
type Request struct {
	Number  int           `json:"number"` // counted from 1 in the order they ended
	Time    time.Time     `json:"time"`   // when it came in
	Elapsed time.Duration `json:"elapsed_ns"`

	Method  string      `json:"method"`
	RawPath string      `json:"raw_path"` // escapes and all
	Query   string      `json:"query"`    // as it came
	Header  http.Header `json:"header"`   // the token replaced by a hash of it

	ClientRequestID string `json:"client_request_id"`
	ActivityID      string `json:"activity_id"`
	Attempt         int    `json:"attempt"` // the number behind its last semicolon; 0: none

	Database string `json:"database"` // decoded once
	Table    string `json:"table"`
	Format   string `json:"format"`
	Mapping  string `json:"mapping"`

	BodyHash string `json:"body_hash"` // SHA-256, in hex, of the bytes that came
	BodyLen  int64  `json:"body_len"`
	Whole    bool   `json:"whole"`   // the body was read to its end
	RawLen   int64  `json:"raw_len"` // after gunzip
	RawSum   string `json:"raw_sum"` // of a whole body: CRC-32 and length of what is in it, in hex, by its own account if it is gzip

	Status  int    `json:"status"`  // 0: no answer was given
	Code    string `json:"code"`    // of the error
	Message string `json:"message"` // of the error
	Stored  bool   `json:"stored"`
	Records int    `json:"records"` // stored
	Dropped int    `json:"dropped"` // lines dropped without a word
	Fault   string `json:"fault"`   // what was scripted, if it was
}

// Totals count all requests since the start.
type Totals struct {
	Requests      int         `json:"requests"`
	ByStatus      map[int]int `json:"by_status"`
	Records       int         `json:"records"` // stored, visible or not
	DroppedLines  int         `json:"dropped_lines"`
	BodyBytes     int64       `json:"body_bytes"`
	RawBytes      int64       `json:"raw_bytes"`
	MaxConcurrent int         `json:"max_concurrent"` // most requests ever under way at a time
	TokenCalls    int         `json:"token_calls"`
}

// requestLog remembers the last requests and counts them all.
type requestLog struct {
	mu       sync.Mutex
	keep     int
	last     []Request // the oldest first
	totals   Totals
	underWay int
	noted    signal
}

// enter counts a request as under way and returns how many are now. The caller calls leave when the
// request has ended.
func (l *requestLog) enter() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.underWay++
	l.totals.MaxConcurrent = max(l.totals.MaxConcurrent, l.underWay)
	return l.underWay
}

func (l *requestLog) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.underWay--
}

// add numbers an ended request, adds it to the totals, keeps it among the last ones and wakes those
// who wait for requests.
func (l *requestLog) add(r Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &l.totals
	t.Requests++
	t.ByStatus[r.Status]++
	t.Records += r.Records
	t.DroppedLines += r.Dropped
	t.BodyBytes += r.BodyLen
	t.RawBytes += r.RawLen
	r.Number = t.Requests
	l.last = append(l.last, r)
	l.last = l.last[max(0, len(l.last)-l.keep):]
	l.noted.fire()
}

// Requests returns a copy of the last ingest requests, the oldest first.
func (s *Server) Requests() []Request {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return append([]Request{}, s.log.last...)
}

// Totals returns the totals of all requests since the start.
func (s *Server) Totals() Totals {
	s.log.mu.Lock()
	t := s.log.totals
	t.ByStatus = maps.Clone(t.ByStatus)
	s.log.mu.Unlock()
	t.TokenCalls = s.TokenCalls()
	return t
}

// DroppedLines counts the lines the service would have dropped without a word.
// A client that checks its records keeps this at 0.
func (s *Server) DroppedLines() int { return s.Totals().DroppedLines }

// WaitRequests returns nil as soon as n ingest requests have ended, or ctx's error.
func (s *Server) WaitRequests(ctx context.Context, n int) error {
	return s.log.noted.wait(ctx, func() bool { return s.Totals().Requests >= n })
}

// WaitRows returns nil as soon as a table holds n rows, visible or not, or ctx's error.
func (s *Server) WaitRows(ctx context.Context, database, table string, n int) error {
	return s.store.changed.wait(ctx, func() bool { return s.store.stored(database, table) >= n })
}

// withoutToken returns a copy of the headers in which a hash replaces the token: it shows that a token
// changed and does not reveal it.
func withoutToken(h http.Header) http.Header {
	h = h.Clone()
	if token := h.Get("Authorization"); token != "" {
		sum := sha256.Sum256([]byte(token))
		h.Set("Authorization", "sha256:"+hex.EncodeToString(sum[:8]))
	}
	return h
}
