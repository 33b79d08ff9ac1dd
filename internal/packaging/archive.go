package main

import (
	"archive/tar"
	"bytes"
	"path"
	"strings"
)

// archive is the tree for machines without packages, below a folder of the name given.
// It has nothing in /etc: unpacked over an installation it changes no configuration.
func (r *release) archive(folder string, tree []file) ([]byte, error) {
	var files []file
	for _, f := range tree {
		if !strings.HasPrefix(f.path, "/etc/") && f.only != "deb" {
			f.path = path.Join(folder, f.path)
			files = append(files, f)
		}
	}
	text, err := r.tarOf(files, "root")
	if err != nil {
		return nil, err
	}
	return packed(text)
}

// tarOf is a tar archive of files, all of one time. owner is the name of their user and of their
// group; empty: numbers alone say who they are.
func (r *release) tarOf(files []file, owner string) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		head := &tar.Header{
			Name: strings.TrimPrefix(f.path, "/"), Mode: int64(f.mode), Size: int64(len(f.text)), ModTime: r.when,
			Typeflag: tar.TypeReg, Uid: f.user, Uname: owner, Gname: owner, Format: tar.FormatPAX,
		}
		if f.folder {
			head.Typeflag, head.Name = tar.TypeDir, head.Name+"/"
		}
		if err := w.WriteHeader(head); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
