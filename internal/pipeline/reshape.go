package pipeline

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"kusto-agent/internal/config"
	"kusto-agent/internal/format"
	"kusto-agent/internal/record"
)

// Reshaper makes of records that were refused what their inputs would send of them now. It is
// for one goroutine.
type Reshaper struct {
	inputs map[string]*config.Input
	shapes map[string]*shape // by input
	plain  *format.Scanner   // checks what no input shapes; nil: nothing was yet
	chunk  format.Chunk
	host   string
}

// shape is the scanner of an input, and the file that it is ready for.
type shape struct {
	*format.Scanner
	file  record.File
	dated int64 // when what is at its path now was changed last; 0: nothing is known to be there
	stamp format.Stamp
}

// NewReshaper returns a Reshaper for the inputs of cfg. It fails if the name of the host, which
// fields may have, cannot be read.
func NewReshaper(cfg *config.Config) (*Reshaper, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	a := &Reshaper{inputs: map[string]*config.Input{}, shapes: map[string]*shape{}, host: host}
	for i := range cfg.Inputs {
		a.inputs[cfg.Inputs[i].Name] = &cfg.Inputs[i]
	}
	return a, nil
}

// Shape returns the record r, which was refused, as its input would send it now, in a batch with
// this id; the caller owns the result. A record whose input is not configured any more, or has
// another format now, is returned as it was in its file. An error says why nothing would be sent.
//
// It validates only what the input has to parse, and JSON unless the input has validate: none. Of
// other formats the service says which record it refuses; of JSON it drops a line that is not sound
// and answers 200 if another one in the request is, so that the record would count as accepted and
// be nowhere.
func (a *Reshaper) Shape(r *record.Rejected, batch record.BatchID) ([]byte, error) {
	in := a.inputs[r.File.Input]
	if in == nil || in.Format != r.Route.Format {
		return a.asItWas(r)
	}
	scan, err := a.scanner(in, r, batch)
	if err != nil {
		return nil, err
	}
	c := &a.chunk
	scan.Scan(copyOf(r.Data), r.Offset, true, 0, c)
	switch {
	case len(c.Rejected) > 0 && c.Rejected[0].Reason == record.TooLong:
		return nil, fmt.Errorf("rejected by max_record_size of its input: %s", c.Rejected[0].Message)
	case len(c.Rejected) > 0:
		return nil, fmt.Errorf("rejected by its input: %s", c.Rejected[0].Message)
	case c.Long:
		return nil, errors.New("rejected by max_record_size of its input")
	case c.Records == 0:
		return nil, errors.New("the rules of its input leave it out now")
	case c.Consumed < len(r.Data):
		return nil, errors.New("it is not one record by the settings of its input now")
	}
	return bytes.Clone(c.Body), nil
}

// copyOf returns a copy of data with a byte to spare: Scan may change the data and write a newline
// behind it.
func copyOf(data []byte) []byte { return append(bytes.Clone(data), 0)[:len(data)] }

// asItWas returns the bytes that the record r has in its file. What is to be sent as JSON is checked: an
// error says that one of its lines is not sound. It is returned without what the agent never sends, such
// as a byte order mark, which would make it unsound in the middle of a request.
func (a *Reshaper) asItWas(r *record.Rejected) (body []byte, err error) {
	if r.Route.Format != record.JSON {
		return bytes.Clone(r.Data), nil
	}
	if a.plain == nil {
		if a.plain, err = format.New(format.Options{Format: record.JSON, Validate: true, MaxRecord: math.MaxInt32}); err != nil {
			return nil, err
		}
	}
	c, offset := &a.chunk, r.Offset
	for data := copyOf(r.Data); len(data) > 0; data = data[c.Consumed:] {
		if a.plain.Scan(data, offset, true, 0, c); len(c.Rejected) > 0 {
			return nil, fmt.Errorf("its input shapes it no more, and as JSON it is not sound: %s", c.Rejected[0].Message)
		}
		body = append(body, c.Body...)
		offset += int64(c.Consumed)
	}
	if len(body) == 0 {
		return nil, errors.New("its input shapes it no more, and as JSON it is blank")
	}
	return body, nil
}

// scanner returns the scanner of an input, set up for the file of the record r and for the id of
// the batch in which r is sent. Scanners are kept for later records.
func (a *Reshaper) scanner(in *config.Input, r *record.Rejected, batch record.BatchID) (*format.Scanner, error) {
	s := a.shapes[in.Name]
	if s == nil {
		o, err := in.Tail().ScanOptions()
		if err != nil {
			return nil, err
		}
		o.SkipHeader = false                                                              // r is never a header, which is not sent
		o.Validate = o.Validate && o.Format == record.JSON && o.Parse == format.ParseNone // see Shape
		scan, err := format.New(o)
		if err != nil {
			return nil, err
		}
		s = &shape{Scanner: scan}
		a.shapes[in.Name] = s
	}
	if s.file != r.File {
		s.file = r.File
		s.stamp = format.Stamp{Host: a.host, Path: r.Path, Input: in.Name, File: r.File.ID, Generation: r.File.Generation}
		s.prepare(r.Path)
	}
	s.stamp.Batch = batch
	s.stamp.Dated = cmp.Or(r.Dated, s.dated) // earlier versions did not keep the date with the record
	s.SetStamp(s.stamp)
	return s.Scanner, nil
}

// prepare notes the date of the file at path, and tells the scanner its columns. If it cannot be
// read, or is no regular file any more, neither is known.
func (s *shape) prepare(path string) {
	s.dated = 0
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // it may be something else by now
	if err == nil {
		defer file.Close()
		if st, err := file.Stat(); err == nil && st.Mode().IsRegular() {
			s.dated = st.ModTime().UnixNano()
			if s.Prepare(file) == nil {
				return
			}
		}
	}
	_ = s.Prepare(bytes.NewReader(nil)) // an empty reader has no columns, and does not fail
}
