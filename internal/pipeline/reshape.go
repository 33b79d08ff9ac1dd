package pipeline

import (
	"bytes"
	"errors"
	"fmt"
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
	chunk  format.Chunk
	host   string
}

// shape is the scanner of an input, and the file that it is ready for.
type shape struct {
	*format.Scanner
	file  record.File
	stamp format.Stamp
}

// NewReshaper takes the inputs as they are in cfg.
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

// Shape returns the record as its input would send it now, in a batch of this id; the
// caller owns it. It validates only what the input has to parse. A record whose input is
// not configured, or has another format now, is returned as it was in its file. An error
// says why nothing would be sent.
func (a *Reshaper) Shape(r *record.Rejected, batch record.BatchID) ([]byte, error) {
	in := a.inputs[r.File.Input]
	if in == nil || in.Format != r.Route.Format {
		return bytes.Clone(r.Data), nil
	}
	scan, err := a.scanner(in, r, batch)
	if err != nil {
		return nil, err
	}
	c := &a.chunk
	scan.Scan(append(bytes.Clone(r.Data), 0)[:len(r.Data)], r.Offset, true, 0, c)
	switch {
	case len(c.Rejected) > 0:
		return nil, fmt.Errorf("its input does not take it: %s", c.Rejected[0].Message)
	case c.Long:
		return nil, errors.New("it is longer than max_record_size")
	case c.Records == 0:
		return nil, errors.New("the rules of its input leave it out now")
	case c.Consumed < len(r.Data):
		return nil, errors.New("it is not one record by the settings of its input now")
	}
	return bytes.Clone(c.Body), nil
}

// scanner returns the scanner of an input, set up for the file of a record.
func (a *Reshaper) scanner(in *config.Input, r *record.Rejected, batch record.BatchID) (*format.Scanner, error) {
	s := a.shapes[in.Name]
	if s == nil {
		o, err := in.Tail().ScanOptions()
		if err != nil {
			return nil, err
		}
		o.Validate, o.SkipHeader = false, false // a header is never refused
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
	s.SetStamp(s.stamp)
	return s.Scanner, nil
}

// prepare gives the scanner the date and the columns of a file; if the file is gone it has
// neither.
func (s *shape) prepare(path string) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // it may be something else by now
	if err == nil {
		defer file.Close()
		if st, err := file.Stat(); err == nil && st.Mode().IsRegular() {
			s.stamp.Dated = st.ModTime().UnixNano()
			if s.Prepare(file) == nil {
				return
			}
		}
	}
	_ = s.Prepare(bytes.NewReader(nil)) // of nothing nothing is read that could fail
}
