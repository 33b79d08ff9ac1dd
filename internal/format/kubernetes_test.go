package format

import (
	"regexp"
	"strings"
	"testing"
)

const containerID = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestPodOf(t *testing.T) {
	f := func(path string, want pod) {
		t.Helper()
		if got := podOf(path); got != want {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
	web := pod{"shop", "web-7d9f8-x2x", "0f3c2c5e-1111-2222-3333-444444444444", "app"}
	f("/var/log/pods/shop_web-7d9f8-x2x_0f3c2c5e-1111-2222-3333-444444444444/app/0.log", web)
	f("/var/log/pods/shop_web-7d9f8-x2x_0f3c2c5e-1111-2222-3333-444444444444/app/0.log.20260301-120000", web)
	f("/var/log/pods/shop_web-7d9f8-x2x_0f3c2c5e-1111-2222-3333-444444444444/app/1.log.20260301-120000.gz", web)
	f("/host/pods/kube-system_etcd-node.example_d41d8cd98f00b204/etcd/3.log", pod{"kube-system", "etcd-node.example", "d41d8cd98f00b204", "etcd"})
	web.uid = ""
	f("/var/log/containers/web-7d9f8-x2x_shop_app-"+containerID+".log", web)
	f("/var/log/containers/web-7d9f8-x2x_shop_side-car-"+containerID+".log", pod{"shop", "web-7d9f8-x2x", "", "side-car"})
	for _, none := range []string{
		"", "/", "a.log", "/var/log/app.log", "/var/log/pods/a/b/0.log", "/var/log/pods/a_b/c/0.log", "/var/log/pods/a_b_c_d/e/0.log", "/var/log/pods/_b_c/d/0.log",
		"/var/log/pods/a_b_c//0.log", "/var/log/pods/a_b_c/0.log", "/var/log/containers/a_b_c.log", "/var/log/containers/a_b_c-12.log",
		"/var/log/containers/a_b_-" + containerID + ".log", "/var/log/containers/_b_c-" + containerID + ".log", "/var/log/containers/a_b_c-" + strings.ToUpper(containerID) + ".log",
	} {
		f(none, pod{})
	}
}

// The two forms, as regular expressions say them.
var (
	podFolder = regexp.MustCompile(`^(?s:.*/)?([^/_]+)_([^/_]+)_([^/_]+)/([^/]+)/[^/]*$`)
	podLink   = regexp.MustCompile(`^(?s:.*/)?([^/_]+)_([^/_]+)_([^/_]+)-[0-9a-f]{64}\.log$`)
)

func FuzzPodOf(f *testing.F) {
	f.Add("/var/log/pods/a_b_c/d/0.log")
	f.Add("/var/log/containers/a_b_c-d-" + containerID + ".log")
	f.Add("a_b_c/d/e_f_g-" + containerID + ".log")
	f.Fuzz(func(t *testing.T, path string) {
		var want pod
		if m := podLink.FindStringSubmatch(path); m != nil {
			want = pod{namespace: m[2], name: m[1], container: m[3]}
		} else if m := podFolder.FindStringSubmatch(path); m != nil {
			want = pod{namespace: m[1], name: m[2], uid: m[3], container: m[4]}
		}
		if got := podOf(path); got != want {
			t.Errorf("%q: %+v, want %+v", path, got, want)
		}
	})
}
