package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Fed lets the agent follow a folder in which one file comes after the other, each of so
// many bytes at most, until there were size bytes. A file is removed once it has arrived, so
// that more can be read than the disk has room for. The result is that of the whole life of
// the process, in which it waits for the files to be made: its rate says nothing.
func (r *Rig) Fed(size, each int64, keys ...string) (Result, error) {
	dir, err := os.MkdirTemp(r.dir, "fed-")
	if err != nil {
		return Result{}, err
	}
	defer os.RemoveAll(dir)
	lines := NewLines()
	lines.echo = echoSize
	var res Result
	p, rep, err := r.follow(filepath.Join(dir, "*.json"), keys, "", func(p *process) (_ Share, err error) {
		res.Bytes, err = r.feed(p, dir, lines, size, each)
		return Share{lines.Count(), res.Bytes}, err
	})
	if err != nil {
		return Result{}, err
	}
	res.Wall, res.CPU, res.Peak, res.Sink = p.took, p.cpu(), p.peak.Load(), rep
	return res, nil
}

func (r *Rig) feed(p *process, dir string, lines *Lines, size, each int64) (sent int64, err error) {
	for n := 0; sent+maxLine <= size; n++ {
		hidden, path := filepath.Join(dir, "next"), filepath.Join(dir, fmt.Sprintf("%04d.json", n))
		written, err := writeFile(hidden, lines, min(each, size-sent))
		if err != nil {
			return sent, err
		}
		sent += written
		if err := errors.Join(os.Rename(hidden, path), r.await(p, sent), os.Remove(path)); err != nil {
			return sent, err
		}
	}
	return sent, nil
}
