// The bar for transports: an ext_authz server on grpc-go that decides nothing. It decodes each request, as any
// service must, and gives one message back, encoded anew for each call, that is as long as Sluice's replies and
// of the same kind: accepted, with one string in its dynamic metadata.
//
// Arguments: ADDRESS (host:port or unix:/path) and the bytes of a reply.
package main

import (
	"context"
	"log"
	"net"
	"os"
	"strconv"
	"strings"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

type server struct {
	auth.UnimplementedAuthorizationServer
	reply *auth.CheckResponse
}

func (s *server) Check(context.Context, *auth.CheckRequest) (*auth.CheckResponse, error) {
	return s.reply, nil
}

func replyWith(text string) *auth.CheckResponse {
	return &auth.CheckResponse{
		Status:       &status.Status{},
		HttpResponse: &auth.CheckResponse_OkResponse{OkResponse: &auth.OkHttpResponse{}},
		DynamicMetadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			"aperture.check_response": structpb.NewStringValue(text),
		}},
	}
}

// replyOf grows the text until the encoded message has this size; the lengths before it grow with it.
func replyOf(size int) *auth.CheckResponse {
	text := ""
	for {
		reply := replyWith(text)
		missing := size - proto.Size(reply)
		if missing == 0 {
			return reply
		}
		if missing < 0 {
			log.Fatalf("no reply has exactly %d bytes", size)
		}
		text += strings.Repeat("A", max(1, missing-8))
	}
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: grpc-go-noop ADDRESS REPLY_BYTES")
	}
	size, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	network, address := "tcp", os.Args[1]
	if path, unix := strings.CutPrefix(address, "unix:"); unix {
		network, address = "unix", path
	}
	listener, err := net.Listen(network, address)
	if err != nil {
		log.Fatal(err)
	}
	s := grpc.NewServer()
	auth.RegisterAuthorizationServer(s, &server{reply: replyOf(size)})
	log.Fatal(s.Serve(listener))
}
