package bench

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// The limit is the least that any shipper must do: read, cut at record ends,
// gzip, post. It frames nothing, remembers nothing and never tries again.

const blockSize = 4_000_000

// blocks cuts a stream into blocks of whole records. Safe for concurrent use.
type blocks struct {
	mu   sync.Mutex
	r    io.Reader
	rest []byte // begun record behind the last block
}

// next fills buf, and returns 0 at the end.
func (b *blocks) next(buf []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := copy(buf, b.rest)
	m, err := io.ReadFull(b.r, buf[n:])
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return 0, err
	}
	have := buf[:n+m]
	cut := bytes.LastIndexByte(have, '\n') + 1
	b.rest = append(b.rest[:0], have[cut:]...)
	return cut, nil
}

// runLimit is a process: it posts the files, or drops them where url is empty.
func runLimit(url string, workers int, paths []string) error {
	source := &blocks{r: &joined{paths: paths}}
	var protocols http.Protocols // HTTP/1.1 alone, as the agent
	protocols.SetHTTP1(true)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers, DisableCompression: true, Protocols: &protocols}}
	errs := make(chan error, workers)
	for range workers {
		// Ends with the input; awaited by the receives below.
		go func() { errs <- squeeze(source, client, url) }()
	}
	var first error
	for range workers {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}

func squeeze(source *blocks, client *http.Client, url string) error {
	buf := make([]byte, blockSize)
	var out bytes.Buffer
	zw, err := gzip.NewWriterLevel(&out, 1)
	if err != nil {
		return err
	}
	for {
		n, err := source.next(buf)
		if n == 0 || err != nil {
			return err
		}
		out.Reset()
		zw.Reset(&out)
		zw.Write(buf[:n])
		if err := zw.Close(); err != nil {
			return err
		}
		if url == "" {
			continue
		}
		if err := post(client, url, out.Bytes()); err != nil {
			return err
		}
	}
}

func post(client *http.Client, url string, data []byte) error {
	req, err := http.NewRequest(http.MethodPost, url+"/v1/rest/ingest/Bench/Lines?streamFormat=JSON&mappingName=Lines_json", bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Encoding", "gzip")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("post a block: status %d", resp.StatusCode)
	}
	return nil
}
