package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"
	"unicode/utf8"
)

// Tap brings records as they are handed over. It is for one goroutine.
type Tap interface {
	// Next waits for records and gives them to each, until that fails. The
	// error is io.EOF when no more will come.
	Next(ctx context.Context, each func(TapRecord) error) error
	// Dropped is how many records were not fetched in time and are not shown.
	Dropped() uint64
	Close()
}

// TapRecord is a record as it is handed over, or a block of them: a line of the
// answer to /v1/tap. Other lines are a TapNote.
type TapRecord struct {
	Input      string `json:"input"`
	File       string `json:"file"` // its id
	Generation uint32 `json:"generation"`
	Path       string `json:"path"`
	Offset     int64  `json:"offset"`            // of its first byte in the file
	Length     int64  `json:"length"`            // in the file, its line end included
	Records    int    `json:"records,omitempty"` // of a block
	Data       []byte `json:"-"`                 // as it is sent; data, or data_base64 where it is not UTF-8. None of a block
}

// TapNote is a line of the answer to /v1/tap that is no record.
type TapNote struct {
	Blocks  []string `json:"blocks,omitempty"`  // in the first line: inputs of blocks
	Dropped uint64   `json:"dropped,omitempty"` // records not shown so far, since they were not fetched in time
	Ended   bool     `json:"ended,omitempty"`   // in the last line: no more is handed over
}

// tapStream writes the lines of a tap.
type tapStream struct {
	w       http.ResponseWriter
	out     *http.ResponseController
	buf     bytes.Buffer
	dropped uint64      // told so far
	end     func() bool // releases what the stream holds
}

// newTapStream returns a stream that writes the lines of a tap to w, without the time limit of
// other answers. Once the server stops, a write that the client does not take fails after
// lastWords. The caller calls end.
func newTapStream(w http.ResponseWriter, r *http.Request) *tapStream {
	s := &tapStream{w: w, out: http.NewResponseController(w)}
	_ = s.out.SetWriteDeadline(time.Time{}) // fails only if w is the recorder of a test
	stopping, ok := r.Context().Value(stoppingKey{}).(context.Context)
	if !ok {
		stopping = r.Context() // of a test
	}
	s.end = context.AfterFunc(stopping, func() { _ = s.out.SetWriteDeadline(time.Now().Add(lastWords)) })
	return s
}

// lastWords is what a stream gets to end when the agent stops.
const lastWords = 500 * time.Millisecond

// stoppingKey is that of a context which ends when the server begins to stop;
// that of a request ends when it is gone.
type stoppingKey struct{}

// streamed is how many bytes of lines are written at once.
const streamed = 64 << 10

// record adds the JSON line of a record to the buffer, and writes the buffer to the client when it
// has reached 64 KiB. Data that is not UTF-8 goes into data_base64. The line of an Avro block has
// no data.
func (s *tapStream) record(rec TapRecord) error {
	line := struct {
		TapRecord
		Data   *string `json:"data,omitempty"`
		Base64 []byte  `json:"data_base64,omitempty"`
	}{TapRecord: rec}
	if rec.Records == 0 { // not a block
		if data := bytes.TrimSuffix(rec.Data, []byte("\n")); utf8.Valid(data) {
			text := string(data)
			line.Data = &text
		} else {
			line.Base64 = data
		}
	}
	enc := json.NewEncoder(&s.buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(line); err != nil {
		return err
	}
	if s.buf.Len() >= streamed {
		return s.flush()
	}
	return nil
}

// tell writes the buffered lines to the client. Before that it adds a note if the number of dropped
// records has changed since the last note, or if the tap has ended.
func (s *tapStream) tell(dropped uint64, ended bool) error {
	if dropped != s.dropped || ended {
		s.dropped = dropped
		return s.note(TapNote{Dropped: dropped, Ended: ended})
	}
	return s.flush()
}

// note adds a line with a note to the buffer and writes the buffer to the client.
func (s *tapStream) note(n TapNote) error {
	if err := json.NewEncoder(&s.buf).Encode(n); err != nil {
		return err
	}
	return s.flush()
}

// flush writes the buffer to the client, with unprintable characters escaped, and empties it.
func (s *tapStream) flush() error {
	_, err := s.w.Write(EscapeJSON(s.buf.Bytes()))
	s.buf.Reset()
	if err == nil {
		err = s.out.Flush()
	}
	return err
}
