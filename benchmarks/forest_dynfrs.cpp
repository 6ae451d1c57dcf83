// DynFrs on one data set, as forest_driver.py measures the other programs; prints JSON objects.
//
//     g++ -std=c++17 -O3 -I FOLDER_OF_DynFrs.h benchmarks/forest_dynfrs.cpp -o driver
//     driver FOLDER TREES K_OF_TREES DEPTH SPLITS LEAST LAZY SECONDS
//
// FOLDER holds arrays as forest_data.write_split writes them. Times are of the processor.

#include <time.h>

#include "DynFrs.h"

namespace {

double processor() {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

// Bytes held in memory, or held at most ("VmHWM:").
long long resident(const std::string &what = "VmRSS:") {
    std::ifstream file("/proc/self/status");
    std::string word;
    long long size = 0;
    while (file >> word && word != what) {
    }
    file >> size;
    return 1024 * size;
}

// The numbers of an array that numpy wrote in C order; `count` is how many.
template <typename T>
std::vector<T> numbers(const std::string &path, size_t &count) {
    std::ifstream file(path, std::ios::binary);
    unsigned char head[10];
    if (!file.read(reinterpret_cast<char *>(head), 10)) {
        std::cerr << path << ": cannot be read\n";
        exit(1);
    }
    const std::streamoff begin = 10 + head[8] + 256 * head[9];
    file.seekg(0, std::ios::end);
    count = size_t(file.tellg() - begin) / sizeof(T);
    file.seekg(begin);
    std::vector<T> out(count);
    file.read(reinterpret_cast<char *>(out.data()), count * sizeof(T));
    return out;
}

std::vector<int> integers(const std::string &path) {
    size_t count = 0;
    return numbers<int>(path, count);
}

std::vector<std::vector<Tx>> rows(const std::string &path, size_t features) {
    size_t count = 0;
    const auto flat = numbers<double>(path, count);
    std::vector<std::vector<Tx>> out;
    for (size_t at = 0; at < count; at += features)
        out.emplace_back(flat.begin() + at, flat.begin() + at + features);
    return out;
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 9) return 2;
    const std::string folder = std::string(argv[1]) + "/";
    const int trees = atoi(argv[2]), occurs = atoi(argv[3]), depth = atoi(argv[4]);
    const int least = atoi(argv[6]);
    p_tries = atoi(argv[5]);
    dly = atoi(argv[7]) != 0;
    const double seconds = atof(argv[8]);

    const auto y = integers(folder + "y.npy");
    size_t size = 0;
    numbers<double>(folder + "X.npy", size);
    const size_t features = size / y.size();
    const auto X = rows(folder + "X.npy", features);
    const auto X_test = rows(folder + "X_test.npy", features);
    const auto single = integers(folder + "single.npy"), asked = integers(folder + "asked.npy");
    const auto batch = integers(folder + "batch.npy"), probe = integers(folder + "probe.npy");
    p_count = int(sqrt(features)) + 1;

    std::ofstream("/proc/self/clear_refs") << 5;
    const long long before = resident();
    double start = processor();
    random_forest forest(X, y, trees, occurs, depth, least);
    const double fit = processor() - start;
    const long long held = resident() - before;

    std::vector<double> shares, answer, times;
    double batched = -1;
    const auto tell = [&] {
        std::cout << "{\"fit\": " << fit << ", \"held\": " << held
                  << ", \"peak\": " << resident("VmHWM:") - before << ", \"own\": null";
        if (batched >= 0) std::cout << ", \"batch\": " << batched;
        if (!times.empty()) std::cout << ", \"times\": [";
        for (size_t i = 0; i < times.size(); ++i) std::cout << (i ? ", " : "") << times[i];
        std::cout << (times.empty() ? "}" : "]}") << std::endl;
    };

    for (const auto &x : X_test) {
        forest.qry(x, answer);
        shares.push_back(answer[1]);
    }
    std::ofstream out(folder + "shares.f8", std::ios::binary);
    out.write(reinterpret_cast<char *>(shares.data()), shares.size() * sizeof(double));
    out.close();
    tell();

    const double end = processor() + seconds;
    for (size_t i = 0; i < single.size() && processor() < end; ++i) {
        start = processor();
        forest.del(single[i]);
        forest.qry(X_test[asked[i]], answer);
        times.push_back(processor() - start);
        // Outside the time, as in its own stream of requests.
        forest.clean_up();
    }
    tell();

    for (int i : probe) forest.qry(X_test[i], answer);
    start = processor();
    forest.del(batch);
    for (int i : probe) forest.qry(X_test[i], answer);
    batched = processor() - start;
    tell();
    return 0;
}
