package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
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
	cmd, state, err := r.agentCommand([]string{filepath.Join(dir, "*.json")}, keys, "")
	if err != nil {
		return Result{}, err
	}
	defer os.RemoveAll(state)
	if err := r.reset(); err != nil {
		return Result{}, err
	}
	p, err := begin(cmd)
	if err != nil {
		return Result{}, err
	}
	lines := NewLines()
	lines.echo = echoSize
	sent, err := r.feed(p, dir, lines, size, each)
	if err := errors.Join(err, p.stop()); err != nil {
		return Result{}, err
	}
	res := Result{Wall: time.Since(p.began), CPU: p.cpu(), Peak: p.peak.Load(), Bytes: sent}
	if res.Sink, err = r.report(); err != nil {
		return Result{}, err
	}
	return res, Share{lines.Count(), sent}.verify(res.Sink)
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
