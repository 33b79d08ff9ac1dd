package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// options are those of the command line.
type options struct {
	root       string // of the checkout
	output     string // folder, made if it is not there
	version    string // empty: from the commit
	commit     string // empty: asked of git
	date       string // in RFC 3339; empty: asked of git
	maintainer string
	arches     []string // as Go names them
}

// arches are the machines that there are packages for.
var arches = []string{"amd64", "arm64"}

func main() {
	var o options
	var only string
	flag.StringVar(&o.root, "checkout", "../..", "the `folder` of the checkout")
	flag.StringVar(&o.output, "output", "../../dist", "the `folder` to write to")
	flag.StringVar(&o.version, "version", "", "the version, such as 1.2.0; default: 0.0.0 with time and name of the commit")
	flag.StringVar(&o.commit, "commit", "", "the commit, where there is no git to ask")
	flag.StringVar(&o.date, "date", "", "the time of the commit in RFC 3339, where there is no git to ask")
	flag.StringVar(&o.maintainer, "maintainer", "kusto-agent <root@localhost>", "name and address of who makes the packages")
	flag.StringVar(&only, "arch", strings.Join(arches, ","), "the machines, with a comma between")
	flag.Parse()
	o.arches = strings.Split(only, ",")
	if err := o.check(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(64)
	}
	made, err := build(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, name := range made {
		fmt.Println(filepath.Join(o.output, name))
	}
}

func (o *options) check() error {
	if flag.NArg() > 0 {
		return fmt.Errorf("%q is no flag; see --help", flag.Arg(0))
	}
	for _, a := range o.arches {
		if !slices.Contains(arches, a) {
			return fmt.Errorf("--arch %s is not one of %s", a, strings.Join(arches, ", "))
		}
	}
	if strings.Trim(o.version, "0123456789abcdefghijklmnopqrstuvwxyz.+~") != "" {
		return fmt.Errorf("--version %s has something else in it than small letters, digits and .+~", o.version)
	}
	if runtime.GOOS != "linux" {
		return fmt.Errorf("packages are made on Linux: the agent writes its own manual pages")
	}
	return nil
}
