// The measured process of the workload `gstreamer`. The first line of its input is a pipeline, as
// for gst-launch-1.0, whose streams end in `creel-bench-sink`. When the pipeline plays, the process
// prints its usage, and then again for each further line. It ends when its input ends.
//
// The first argument states where the time of a buffer is. With `packet`, it is the first 8 bytes
// of the buffer. With `pad`, we add it to a buffer that leaves a source.

#include <gst/gst.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// Latencies below 1 ms are counted in buckets of 0.1 us, and others in buckets of 10 us. The last
// bucket contains all latencies from 1 s on.
#define FINE_NS 100
#define COARSE_NS 10000
#define FINE 10000
#define BUCKETS (FINE + 100000)

static int in_packet;
static guint64 buffers;
static guint32 counts[BUCKETS];

static guint64 bucket_of(guint64 ns) {
  guint64 bucket = ns / FINE_NS < FINE ? ns / FINE_NS : FINE + ns / COARSE_NS;
  return MIN(bucket, BUCKETS - 1);
}

static guint64 ns_of(guint64 bucket) {
  return bucket < FINE ? bucket * FINE_NS : (bucket - FINE) * COARSE_NS;
}

static void record(GstBuffer *buffer, guint64 now) {
  guint64 then = GST_BUFFER_OFFSET_END(buffer);
  if (in_packet && gst_buffer_extract(buffer, 0, &then, sizeof then) != sizeof then) return;
  guint64 bucket = bucket_of(now > then ? now - then : 0);
  __atomic_fetch_add(&counts[bucket], 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&buffers, 1, __ATOMIC_RELAXED);
}

// The sink does as little as possible, so that the elements before it dominate the measurement.

typedef struct { GstElement element; } Sink;
typedef struct { GstElementClass element; } SinkClass;
G_DEFINE_TYPE(Sink, sink, GST_TYPE_ELEMENT)

static GstFlowReturn chain(GstPad *pad, GstObject *parent, GstBuffer *buffer) {
  record(buffer, gst_util_get_timestamp());
  gst_buffer_unref(buffer);
  return GST_FLOW_OK;
}

static GstFlowReturn chain_list(GstPad *pad, GstObject *parent, GstBufferList *list) {
  guint64 now = gst_util_get_timestamp();
  for (guint i = 0; i < gst_buffer_list_length(list); i++)
    record(gst_buffer_list_get(list, i), now);
  gst_buffer_list_unref(list);
  return GST_FLOW_OK;
}

static void sink_class_init(SinkClass *class) {
  GstElementClass *element = GST_ELEMENT_CLASS(class);
  // 80 samples of these caps are 160 bytes and last 20 ms.
  GstCaps *caps = in_packet ? gst_caps_new_any()
                            : gst_caps_from_string("audio/x-raw, format=S16LE, channels=1, "
                                                   "layout=interleaved, rate=4000");
  gst_element_class_add_pad_template(
      element, gst_pad_template_new("sink", GST_PAD_SINK, GST_PAD_ALWAYS, caps));
  gst_caps_unref(caps);
  gst_element_class_set_static_metadata(element, "Sink", "Sink", "Records latencies", "Creel");
}

static void sink_init(Sink *sink) {
  GstPadTemplate *template =
      gst_element_class_get_pad_template(GST_ELEMENT_GET_CLASS(sink), "sink");
  GstPad *pad = gst_pad_new_from_template(template, "sink");
  gst_pad_set_chain_function(pad, chain);
  gst_pad_set_chain_list_function(pad, chain_list);
  gst_element_add_pad(GST_ELEMENT(sink), pad);
}

static GstPadProbeReturn stamp(GstPad *pad, GstPadProbeInfo *info, gpointer data) {
  GstBuffer *buffer = gst_buffer_make_writable(GST_PAD_PROBE_INFO_BUFFER(info));
  GST_BUFFER_OFFSET_END(buffer) = gst_util_get_timestamp();
  GST_PAD_PROBE_INFO_DATA(info) = buffer;
  return GST_PAD_PROBE_OK;
}

static void stamp_buffers_of(const GValue *value, gpointer data) {
  GstElement *element = g_value_get_object(value);
  if (element->numsinkpads == 0)
    gst_pad_add_probe(GST_PAD(element->srcpads->data), GST_PAD_PROBE_TYPE_BUFFER, stamp, NULL,
                      NULL);
}

static GstBusSyncReply on_message(GstBus *bus, GstMessage *message, gpointer data) {
  if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
    GError *error;
    gchar *debug;
    gst_message_parse_error(message, &error, &debug);
    fprintf(stderr, "%s: %s\n", error->message, debug);
    _exit(1);
  }
  gst_message_unref(message);
  return GST_BUS_DROP;
}

// Prints the usage, and starts to count latencies again.
static void print_usage(void) {
  struct timespec cpu;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  guint64 total = 0, seen = 0, p50 = 0, p99 = 0;
  long pages = 0;
  FILE *statm = fopen("/proc/self/statm", "r");
  if (statm == NULL || fscanf(statm, "%*d %ld", &pages) != 1) exit(1);
  fclose(statm);
  for (int i = 0; i < BUCKETS; i++) total += counts[i];
  for (int i = 0; i < BUCKETS && seen < total; i++) {
    if (seen * 2 < total) p50 = i;
    if (seen * 100 < total * 99) p99 = i;
    seen += counts[i];
  }
  memset(counts, 0, sizeof counts);
  printf("{\"cpu_ns\": %lld, \"rss_bytes\": %ld, \"buffers\": %llu, \"p50_ns\": %llu, "
         "\"p99_ns\": %llu}\n",
         cpu.tv_sec * 1000000000LL + cpu.tv_nsec, pages * sysconf(_SC_PAGESIZE),
         (unsigned long long)buffers, (unsigned long long)ns_of(p50),
         (unsigned long long)ns_of(p99));
  fflush(stdout);
}

int main(int argc, char **argv) {
  in_packet = argc > 1 && strcmp(argv[1], "packet") == 0;
  gst_init(NULL, NULL);
  gst_element_register(NULL, "creel-bench-sink", GST_RANK_NONE, sink_get_type());
  char *line = NULL;
  size_t size = 0;
  if (getline(&line, &size, stdin) < 0) return 1;
  GError *error = NULL;
  GstElement *pipeline = gst_parse_launch(line, &error);
  if (error != NULL) {
    fprintf(stderr, "%s\n", error->message);
    return 1;
  }
  GstIterator *sources = gst_bin_iterate_sources(GST_BIN(pipeline));
  if (!in_packet) gst_iterator_foreach(sources, stamp_buffers_of, NULL);
  gst_bus_set_sync_handler(gst_element_get_bus(pipeline), on_message, NULL, NULL);
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  gst_element_get_state(pipeline, NULL, NULL, GST_CLOCK_TIME_NONE);
  do
    print_usage();
  while (getline(&line, &size, stdin) >= 0);
  // We only measure the pipeline while it plays.
  _exit(0);
}
