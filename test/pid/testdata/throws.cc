// Throws through frames that are traced, also in threads; ends with status 5.
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

__attribute__((noinline)) int f(int i) {
	if (i % 3 == 0)
		throw std::runtime_error("thrown " + std::to_string(i));
	return i;
}

int main() {
	int sum = 0, caught = 0;
	for (int i = 0; i < 30; i++)
		try {
			sum += f(i);
		} catch (std::exception &e) {
			caught++;
			std::cout << e.what() << "\n";
		}
	std::vector<std::thread> threads;
	for (int i = 0; i < 3; i++)
		threads.emplace_back([] {
			std::map<std::string, int> m;
			for (int j = 0; j < 50; j++)
				m[std::to_string(j)] = j;
			try {
				f(0);
			} catch (std::exception &) {
			}
		});
	for (auto &t : threads)
		t.join();
	std::cout << sum << " " << caught << std::endl;
	return 5;
}
